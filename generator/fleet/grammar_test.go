package fleet

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"muster/generator/kustomize"
	"muster/generator/plan"
	"muster/gitops/branch"
	"muster/gitops/unraced"
)

// grammarMemory is what a process that builds may need, and hereMemory what is left of
// 128 MiB beside two of them, in bytes.
const (
	grammarMemory = 32 << 20
	hereMemory    = 128<<20 - 2*grammarMemory
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "serve" {
		kustomize.Serve(os.Stdin, os.Stdout, grammarMemory)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// grammar makes hostile overlays: what stands in each file, and what the files
// are, is drawn from all that was ever found to do harm, and from what is valid.
type grammar struct {
	*rand.Rand
	f   files
	dir string
}

func (g grammar) one(of ...string) string { return of[g.IntN(len(of))] }

func (g grammar) write(name, content string) { g.f[path.Join(g.dir, name)] = content }

// bomb is YAML of a few lines that stands for a lot.
func (g grammar) bomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x]\n")
	for i := range 1 + g.IntN(20) {
		fmt.Fprintf(&b, "a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 8), i)
	}
	return g.one("", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "---\n", "x: |\n  y\n---\n", "{\n---\n") + b.String()
}

// content is a file of any kind.
func (g grammar) content() string {
	const job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: agent, namespace: buildkite}\nspec:\n  template:\n    spec:\n      restartPolicy: Never\n      containers: [{name: agent, image: x}]\n"
	switch g.IntN(15) {
	case 0, 1, 2:
		return job
	case 3, 4:
		return g.bomb()
	case 5:
		var b strings.Builder
		for i := range g.IntN(400) {
			fmt.Fprintf(&b, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d}\n---\n", i)
		}
		return b.String()
	case 6:
		return strings.Repeat(g.one("[", "{a: ", "- ", "  ", "\x00", "&a *a ", "%", "---\n", "? ", "a: b\n", "'"), 1+g.IntN(20_000))
	case 7:
		var b strings.Builder
		for i := range g.IntN(3000) {
			fmt.Fprintf(&b, "K%d=v\n", i)
		}
		return b.String()
	case 8:
		return strings.Repeat("x", g.IntN(5<<20))
	case 9:
		return job[:g.IntN(len(job))]
	case 10:
		return "spec: &a {template: {spec: *a}}\n"
	case 11:
		return g.one("", "\n", "null\n", "[]\n", "- 7\n", "\xff\xfe", "\ufeff", "{}", "!!binary x\n", "!!python/object x\n", "<<: {a: b}\n", "a: 1\na: 2\n")
	case 12:
		return g.kustomization()
	case 13: // noise
		noise := make([]byte, g.IntN(5<<20))
		for i := range noise {
			noise[i] = byte(g.Uint32())
		}
		return string(noise)
	}
	text := []byte(job)
	for range 1 + g.IntN(4) {
		text[g.IntN(len(text))] = byte(g.IntN(256))
	}
	return string(text)
}

func (g grammar) file() string {
	return g.one("job.yaml", "x.yaml", "bomb.txt", "x.patch", "configmap.yaml", "dispatches", "../../../base", "../base", ".", "..", "../bad", "dir", "a", "kustomization.yaml", "/etc/passwd",
		"https://example.com/x", "../../../../..", "missing.yaml", "state.yaml", "../good/configmap.yaml", "template", "")
}

// kustomization is one of a few lines.
func (g grammar) kustomization() string {
	var b strings.Builder
	for range 1 + g.IntN(5) {
		f := g.file()
		b.WriteString(g.one(
			"resources: ["+f+"]\n", "resources: ["+f+", "+g.file()+"]\n", "resources: [configmap.yaml, dispatches]\n", "resources: [../../../base]\n", "components: ["+f+"]\n", "crds: ["+f+"]\n", "configurations: ["+f+"]\n", "openapi: {path: "+f+"}\n",
			"patches: [{path: "+f+"}]\n", "patchesStrategicMerge: ["+f+"]\n", "patchesJson6902: [null]\n", "patchesJson6902: [{path: "+f+", target: {kind: Job, version: v1, name: agent}}]\n",
			"patches: [{patch: 'a: &a [*a]', target: {kind: Job}}]\n", "configMapGenerator: [{name: x, files: ["+f+"]}]\n", "configMapGenerator: [{name: x, envs: ["+f+"]}]\n", "secretGenerator: [{name: x, literals: [a=b]}]\n",
			"replacements: [{path: "+f+"}]\n", "replacements: [{source: {kind: Job}, targets: [{select: {kind: Job}, fieldPaths: [spec.a], options: {create: true}}]}]\n", g.doubling(),
			"vars: [{name: A, objref: {kind: Job, name: agent}}]\n", "helmCharts: [{name: x}]\n", "generators: ["+f+"]\n", "transformers: ["+f+"]\n", "validators: ["+f+"]\n",
			"namePrefix: "+g.one("a-", "A", "../", "''")+"\n", "namespace: x\n", "commonLabels: {muster.dev/overlay: good}\n", "commonAnnotations: {muster.dev/not-after: x}\n", "images: [{name: x, newTag: y}]\n",
			"buildMetadata: [originAnnotations]\n", "replicas: [{name: agent, count: 9}]\n", "sortOptions: {order: fifo}\n", "kind: Component\n", "bases: ["+f+"]\n", "nonsense: 1\n", g.bomb(),
		))
	}
	return b.String()
}

// doubling returns patches that each double the Job.
func (g grammar) doubling() string {
	var b strings.Builder
	b.WriteString("patches:\n- target: {kind: Job}\n  patch: |-\n    - {op: add, path: /metadata/annotations, value: {a: b}}\n")
	for i := range g.IntN(40) {
		fmt.Fprintf(&b, "    - {op: copy, from: /metadata, path: /metadata/annotations/k%d}\n", i)
	}
	return b.String()
}

// overlay writes the files of one overlay.
func (g grammar) overlay() {
	policy := "apiVersion: muster.dev/v1alpha1\nkind: ScalingPolicy\nspec:\n  queue: bad\n  max: 50\n"
	if g.IntN(6) == 0 {
		policy = g.content()
	}
	g.write("scaling.yaml", policy)
	if g.IntN(2) == 0 {
		g.write("template/kustomization.yaml", g.one("resources: [job.yaml]\n", "resources: [../../../base]\n"))
		g.write("template/job.yaml", g.content())
	} else {
		g.write(g.one("template/kustomization.yaml", "template/kustomization.yaml", "template/Kustomization", "template", "template/kustomization.yaml/x"), g.kustomization())
	}
	if g.IntN(2) == 0 {
		g.write("kustomization.yaml", "resources: [configmap.yaml, dispatches]\n"+g.kustomization())
	} else {
		g.write("kustomization.yaml", "resources: [configmap.yaml, dispatches]\n")
	}
	g.write("configmap.yaml", g.one("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bad}\n", g.content()))
	if g.IntN(2) == 0 {
		g.write("dispatches/state.yaml", g.state())
	}
	for range g.IntN(8) {
		name := g.one("job.yaml", "x.yaml", "bomb.txt", "x.patch", "a", "dir/kustomization.yaml", "template/x.yaml", "template/bomb.txt", "template/x.patch", "template/a",
			"dispatches/kustomization.yaml", "dispatches/kustomization.yaml/x", "dispatches/kustomization.yml", "dispatches/Kustomization", "dispatches/state.yaml", "dispatches/state.yaml/x",
			"dispatches/bad-00000001.yaml", "dispatches/bad-00000001.yaml/x", "dispatches/x.yml", "dispatches/\x1b.yaml", "dispatches/.yaml", "dispatches/README.md", "dispatches",
			"inner/scaling.yaml", "a/b/c/d/e/f/scaling.yaml", "scaling.yaml/x")
		g.write(name, g.one(g.content(), g.kustomization()))
	}
}

// state is a state.yaml whose orders may be damaged.
func (g grammar) state() string {
	line := g.one(goodLine, strings.Replace(goodLine, "default-aaaaaaaa", g.one("bad-00000001", `"\x1b"`, `"a\nb"`, "state", "job"), 1), strings.Replace(goodLine, "3", g.one("0", "1e9", "[3]", "null"), 1))
	text := "apiVersion: muster.dev/v1alpha1\nkind: OverlayState\n" + g.one("---\n", "--- # x\n", "\r\n---\r\n") + "orders:\n" + line + g.one("", goodLine, "<<<<<<< HEAD\n", "---\n"+goodLine)
	if g.IntN(3) == 0 {
		return text[:g.IntN(len(text))]
	}
	return text
}

// hostileTree is a valid overlay, good, and a hostile one.
func hostileTree(tb testing.TB, seed uint64) files {
	f := sound(tb).copy("overlays/default", "overlays/good")
	for name := range f {
		if strings.HasPrefix(name, "overlays/default/") {
			delete(f, name)
		}
	}
	g := grammar{Rand: rand.New(rand.NewPCG(seed, 1)), f: f}
	g.dir = "overlays/" + g.one("bad", "bad", "bad", ".git", ".GIT", "git~1", ".git.", "a b", "x/y/z", "esc\x1b", "\u202e", "good2", "Good-", "b/b/b/b/b/b", "..x")
	g.overlay()
	// A name is a file or a directory.
	for name := range f {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			delete(f, dir)
		}
	}
	return f
}

// tryHostile loads a hostile tree: the overlay beside is valid, and what would be
// written can be.
func tryHostile(t *testing.T, b kustomize.Builder, seed uint64) {
	t.Helper()
	f := hostileTree(t, seed)
	tree := f.tree()
	peak := watchHeap()
	overlays, err := NewLoader("overlays").BuildWith(b, 0).Load(tree)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	good := false
	for _, o := range overlays {
		good = good || o.Name == "good" && o.Err() == nil
		if err := o.Err(); err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") { // a finding each
				if len(line) > 2000 || strings.Contains(line, "\x1b") {
					t.Errorf("seed %d: %q", seed, line)
				}
			}
			continue
		}
		changes := o.Repair()
		_, more, err := o.Add([]plan.Dispatch{order("x-00000001", 2)})
		if refused := o.unorderable(); (err != nil) != (refused != nil) {
			t.Errorf("seed %d: %v, want %v", seed, err, refused)
		}
		for _, c := range append(changes, more...) {
			if err := branch.CheckPath(c.Path); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
			if info, err := fs.Stat(tree, c.Path); err == nil && info.IsDir() {
				t.Errorf("seed %d: %s is a directory", seed, c.Path)
			}
		}
	}
	if !good {
		t.Errorf("seed %d: the valid overlay is suspended", seed)
	}
	if used := peak(); used > hereMemory {
		t.Errorf("seed %d: %d MiB of memory, and %d MiB for each process that builds", seed, used>>20, grammarMemory>>20)
	}
}

// watchHeap watches by how much the heap grows until the function that it returns is
// called. What the fuzzer and the tree itself take is none of it.
func watchHeap() (stop func() uint64) {
	runtime.GC()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	read := func() uint64 {
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	before := read()
	limit := debug.SetMemoryLimit(int64(before) + hereMemory) // as the program does
	peak := before
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			peak = max(peak, read())
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() uint64 {
		close(done)
		<-ended
		debug.SetMemoryLimit(limit)
		return peak - before
	}
}

func hostileBuilder(tb testing.TB) kustomize.Builder {
	program, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	return &kustomize.Process{Command: func() *exec.Cmd { return exec.Command(program, "serve") }, Time: 30 * time.Second, Memory: grammarMemory, Idle: time.Second}
}

// TestHostileTrees: whatever one overlay contains, the other overlay is loaded.
func TestHostileTrees(t *testing.T) {
	b := hostileBuilder(t)
	for seed := range 60 {
		if seed == 4 { // these suffice for the race detector
			unraced.Only(t)
		}
		tryHostile(t, b, uint64(seed))
	}
}

// FuzzHostileTrees is the same for as long as there is time.
func FuzzHostileTrees(f *testing.F) {
	f.Add(uint64(1))
	f.Add(uint64(111)) // valid, with a template that is refused
	f.Fuzz(func(t *testing.T, seed uint64) { tryHostile(t, hostileBuilder(t), seed) })
}
