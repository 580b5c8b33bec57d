package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/cmd/invocation"
	"muster/generator/kustomize"

	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// patient is the program's builder. It reports when the build of a hostile overlay takes long;
// valid overlays may take any time.
type patient struct {
	kustomize.Builder

	mu    sync.Mutex
	waits map[context.Context]chan struct{} // by the context of a build
	count int
	then  func()
}

// longBuild is the time limit of a hostile build.
const longBuild = 150 * time.Millisecond

func newPatient(t *testing.T) *patient {
	executable, err := os.Executable() // this test, which is then the program
	check(t, err)
	p := program{invocation.Program{Executable: executable}}.Builder().(*kustomize.Process)
	p.Idle = 20 * time.Millisecond
	return &patient{Builder: p, waits: map[context.Context]chan struct{}{}}
}

// timeout returns a channel that is closed when the build of a context has exceeded its limit.
func (p *patient) timeout(ctx context.Context) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waits[ctx] == nil {
		p.waits[ctx] = make(chan struct{})
	}
	return p.waits[ctx]
}

// before calls f before the build with that number from now.
func (p *patient) before(number int, f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count, p.then = number, f
}

// Build implements [kustomize.Builder].
func (p *patient) Build(ctx context.Context, files filesys.FileSystem, dir string) ([]kustomize.Object, error) {
	p.mu.Lock()
	if p.count--; p.count < 0 && p.then != nil {
		p.then()
		p.then = nil
	}
	p.mu.Unlock()
	sound := slices.ContainsFunc(soundOverlays, func(name string) bool { return strings.HasPrefix(dir+"/", "overlays/"+name+"/") })
	if !sound {
		timer := time.AfterFunc(longBuild, func() { close(p.timeout(ctx)) })
		defer timer.Stop()
	}
	return p.Builder.Build(ctx, files, dir)
}
