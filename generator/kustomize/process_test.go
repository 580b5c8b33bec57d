package kustomize

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"muster/gitops/unraced"
)

const testMemory = 96 << 20

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "serve" {
		Serve(os.Stdin, os.Stdout, testMemory)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func process(t *testing.T, limit time.Duration) *Process {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{Command: func() *exec.Cmd { return exec.Command(program, "serve") }, Time: limit, Memory: testMemory, Idle: time.Minute}
	t.Cleanup(p.end)
	return p
}

// end ends the process that is kept.
func (p *Process) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.free {
		_ = w.end()
	}
	p.free = nil
}

// directory is a file system with one directory, d.
func directory(files map[string]string) filesys.FileSystem {
	fsys := filesys.MakeFsInMemory()
	for name, content := range files {
		_ = fsys.WriteFile("/d/"+name, []byte(content))
	}
	return fsys
}

func configMaps(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d}\n---\n", i)
	}
	return b.String()
}

// listed is a directory with n ConfigMaps.
func listed(n int) map[string]string {
	return map[string]string{"kustomization.yaml": "resources: [c.yaml]\n", "c.yaml": configMaps(n)}
}

// doubling returns patches that each double the object. It begins with a megabyte, because many small
// values would take long to reach the limit.
func doubling(n int) string {
	var b strings.Builder
	b.WriteString("resources: [c.yaml]\npatches:\n- target: {kind: ConfigMap}\n  patch: |-\n")
	fmt.Fprintf(&b, "    - {op: add, path: /data, value: {a: %s}}\n", strings.Repeat("x", 1<<20))
	for i := range n {
		fmt.Fprintf(&b, "    - {op: copy, from: /data, path: /data/k%d}\n", i)
	}
	return b.String()
}

// TestIdleProcessesEnd asserts that a process that is not used for a while ends, beside builds
// that take and return processes.
func TestIdleProcessesEnd(t *testing.T) {
	p := process(t, time.Hour)
	p.Idle = time.Millisecond
	var builds sync.WaitGroup
	for range 2 {
		builds.Go(func() {
			for range 2 {
				if _, err := p.Build(t.Context(), directory(listed(1)), "d"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	builds.Wait()
	for kept := 1; kept > 0; time.Sleep(time.Millisecond) {
		p.mu.Lock()
		kept = len(p.free)
		p.mu.Unlock()
	}
}

// TestProcessBuildsTheSame: a process of its own comes to what this one does, in
// words too.
func TestProcessBuildsTheSame(t *testing.T) {
	p := process(t, time.Hour)
	for name, files := range map[string]map[string]string{
		"objects":      {"kustomization.yaml": "resources: [c.yaml]\nnamePrefix: x-\n", "c.yaml": configMaps(3)},
		"generator":    {"kustomization.yaml": "configMapGenerator: [{name: a, files: [run.sh]}]\n", "run.sh": "a: &b\n\x00\xff"},
		"no directory": {},
		"no file":      {"kustomization.yaml": "resources: [c.yaml]\n"},
		"no YAML":      {"kustomization.yaml": "resources: [c.yaml]\n", "c.yaml": "{"},
		"a null patch": {"kustomization.yaml": "resources: [c.yaml]\npatchesJson6902: [null]\n", "c.yaml": configMaps(1)},
	} {
		here, hereErr := Here{}.Build(t.Context(), directory(files), "d")
		there, thereErr := p.Build(t.Context(), directory(files), "d")
		if diff := cmp.Diff(here, there); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if fmt.Sprint(hereErr) != fmt.Sprint(thereErr) {
			t.Errorf("%s: %v here, %v there", name, hereErr, thereErr)
		}
	}
	if len(p.free) != 1 {
		t.Error("the process is not kept for the next build")
	}
}

// TestProcessIsBounded: what takes too long or needs too much ends alone, and
// the next build is none the worse.
func TestProcessIsBounded(t *testing.T) {
	unraced.Only(t)
	for name, c := range map[string]struct {
		limit time.Duration
		files map[string]string
		says  string
	}{
		"time":   {300 * time.Millisecond, listed(20_000), "it takes kustomize more than 300ms"},
		"memory": {time.Hour, map[string]string{"kustomization.yaml": doubling(40), "c.yaml": configMaps(1)}, "needs more than 96 MiB of memory"},
		"output": {time.Hour, map[string]string{"kustomization.yaml": "resources: [c.yaml]\n", "c.yaml": strings.TrimSuffix(configMaps(1), "---\n") + "data: {a: " + strings.Repeat("x", maxOutput) + "}\n"}, "it comes to more than 4 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			p := process(t, c.limit)
			_, err := p.Build(t.Context(), directory(c.files), "d")
			var failure *Failure
			if !errors.As(err, &failure) || !strings.Contains(failure.Text, c.says) {
				t.Fatalf("%v, want %s", err, c.says)
			}
			p.Time = time.Hour
			if _, err := p.Build(t.Context(), directory(listed(1)), "d"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestProcessEndsWithContext: nothing runs on after the context.
func TestProcessEndsWithContext(t *testing.T) {
	p := process(t, time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := p.Build(ctx, hooked{directory(listed(20_000)), cancel}, "d"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// hooked is a file system that calls a function when the objects are read.
type hooked struct {
	filesys.FileSystem
	read func()
}

func (f hooked) ReadFile(name string) ([]byte, error) {
	if strings.HasSuffix(name, "c.yaml") {
		f.read()
	}
	return f.FileSystem.ReadFile(name)
}

// TestProcessesAreKept: two builds at a time need two processes, however many there
// are.
func TestProcessesAreKept(t *testing.T) {
	p := process(t, time.Hour)
	command := p.Command
	var started atomic.Int32
	p.Command = func() *exec.Cmd {
		started.Add(1)
		return command()
	}
	for range 4 {
		var begun, over sync.WaitGroup
		begun.Add(2)
		for range 2 {
			over.Go(func() {
				both := sync.OnceFunc(func() {
					begun.Done()
					begun.Wait()
				})
				if _, err := p.Build(t.Context(), hooked{directory(listed(1)), both}, "d"); err != nil {
					t.Error(err)
				}
			})
		}
		over.Wait()
	}
	if n := started.Load(); n != 2 {
		t.Errorf("%d processes were started, want 2", n)
	}
}
