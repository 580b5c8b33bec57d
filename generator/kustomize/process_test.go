package kustomize

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/kyaml/filesys"
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

// doubling are patches of which each doubles the object.
func doubling(n int) string {
	var b strings.Builder
	b.WriteString("resources: [c.yaml]\npatches:\n- target: {kind: ConfigMap}\n  patch: |-\n    - {op: add, path: /data, value: {a: xxxxxxxxxxxxxxxx}}\n")
	for i := range n {
		fmt.Fprintf(&b, "    - {op: copy, from: /data, path: /data/k%d}\n", i)
	}
	return b.String()
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
	for name, c := range map[string]struct {
		limit time.Duration
		files map[string]string
		says  string
	}{
		"time":   {300 * time.Millisecond, map[string]string{"kustomization.yaml": "resources: [c.yaml]\n", "c.yaml": configMaps(20_000)}, "it takes kustomize more than 300ms"},
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
			if _, err := p.Build(t.Context(), directory(map[string]string{"kustomization.yaml": "resources: [c.yaml]\n", "c.yaml": configMaps(1)}), "d"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestProcessEndsWithContext: nothing runs on after the context.
func TestProcessEndsWithContext(t *testing.T) {
	p := process(t, time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	files := &telling{FileSystem: directory(map[string]string{"kustomization.yaml": "resources: [c.yaml]\n", "c.yaml": configMaps(20_000)}), notified: make(chan struct{}, 100)}
	ended := make(chan error)
	go func() {
		_, err := p.Build(ctx, files, "d")
		ended <- err
	}()
	<-files.notified
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// telling tells when the objects are read.
type telling struct {
	filesys.FileSystem
	notified chan struct{}
}

func (f *telling) ReadFile(name string) ([]byte, error) {
	if strings.HasSuffix(name, "c.yaml") {
		f.notified <- struct{}{}
	}
	return f.FileSystem.ReadFile(name)
}

// TestProcessesAreKept: two builds at a time need two processes, however many there
// are.
func TestProcessesAreKept(t *testing.T) {
	p := process(t, time.Hour)
	command, started := p.Command, 0
	p.Command = func() *exec.Cmd { started++; return command() } // while nothing else is built, or under the lock below
	for range 4 {
		var begun, over sync.WaitGroup
		begun.Add(2)
		var mu sync.Mutex
		for range 2 {
			over.Go(func() {
				files := &waiting{FileSystem: directory(map[string]string{"kustomization.yaml": "resources: [c.yaml]\n", "c.yaml": configMaps(1)}), begun: &begun}
				mu.Lock() // until the first has begun
				var once sync.Once
				files.unlock = func() { once.Do(mu.Unlock) }
				if _, err := p.Build(t.Context(), files, "d"); err != nil {
					t.Error(err)
				}
			})
		}
		over.Wait()
	}
	if started != 2 {
		t.Errorf("%d processes were started, want 2", started)
	}
}

// waiting is a file system of a build that continues when another has begun.
type waiting struct {
	filesys.FileSystem
	begun  *sync.WaitGroup
	unlock func()
	once   sync.Once
}

func (w *waiting) CleanedAbs(name string) (filesys.ConfirmedDir, string, error) {
	w.unlock()
	w.once.Do(func() { w.begun.Done(); w.begun.Wait() })
	return w.FileSystem.CleanedAbs(name)
}
