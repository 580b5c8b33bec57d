package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"muster/gitops/gitserver"
)

// gitHost is a real git server, a clone that people work in, and when each dispatch
// was pushed.
type gitHost struct {
	gitserver.Repository
	server  *gitserver.Server
	handler http.Handler
	url     string
	clone   string
	away    atomic.Bool
	muster  string

	editing sync.Mutex // one edit at a time

	mu     sync.Mutex
	pushes sync.Mutex
	pushed map[string]time.Time // by dispatch
	heads  []string             // each that main was pushed to
}

func startGit(t tb, dir, muster string) *gitHost {
	g := &gitHost{pushed: map[string]time.Time{}, clone: filepath.Join(dir, "clone"), muster: muster}
	var err error
	g.Repository, err = gitserver.Init(filepath.Join(dir, "git", "fleet.git"))
	must(t, err)
	g.server, err = gitserver.Serve(filepath.Join(dir, "git"), gitserver.Options{Remember: true, Wrap: g.wrap})
	must(t, err)
	g.url = g.server.URL + "/fleet.git"
	must(t, os.MkdirAll(g.clone, 0o755))
	for _, args := range [][]string{
		{"init", "--quiet", "--initial-branch=main"}, {"config", "user.name", "a person"}, {"config", "user.email", "person@example.com"},
		{"remote", "add", "origin", g.url},
	} {
		must(t, g.inClone(args...))
	}
	return g
}

// wrap notes when dispatches arrive, and lets the server be away.
func (g *gitHost) wrap(next http.Handler) http.Handler {
	g.handler = seen.note(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.away.Load() {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
			next.ServeHTTP(w, r)
			return
		}
		g.pushes.Lock()
		defer g.pushes.Unlock()
		before, _ := g.Head()
		next.ServeHTTP(w, r)
		now := time.Now()
		after, _ := g.Head()
		if before != "" && after != before {
			g.note(before, after, now)
		}
	}))
	return g.handler
}

// listen serves the repository on another address of this machine too, and returns its
// URL there.
func (g *gitHost) listen(address string) (string, error) {
	l, err := net.Listen("tcp", address+":0")
	if err != nil {
		return "", err
	}
	go func() { _ = (&http.Server{Handler: g.handler}).Serve(l) }()
	return "http://" + l.Addr().String() + "/fleet.git", nil
}

func (g *gitHost) note(before, after string, at time.Time) {
	out, err := g.Git("diff", "--no-renames", "--name-status", before, after)
	if err != nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.heads = append(g.heads, after)
	for line := range strings.Lines(out) {
		status, path, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if status == "A" && strings.Contains(path, "/dispatches/") {
			g.pushed[strings.TrimSuffix(filepath.Base(path), ".yaml")] = at
		}
	}
}

func (g *gitHost) pushedAt(dispatch string) (time.Time, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, ok := g.pushed[dispatch]
	return at, ok
}

// allHeads are the commits that main has been at, but for the first.
func (g *gitHost) allHeads() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.heads)
}

func (g *gitHost) inClone(args ...string) error {
	cmd := exec.Command("git", args...)
	cmd.Dir = g.clone
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "HOME="+filepath.Dir(g.clone))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// edit is a commit of a person's: change works in a clone of what is newest.
func (g *gitHost) edit(message string, change func(dir string) error) error {
	g.editing.Lock()
	defer g.editing.Unlock()
	var err error
	for range 10 {
		if _, none := g.Head(); none == nil {
			if err := g.inClone("fetch", "--quiet", "origin", "main"); err != nil {
				return err
			}
			if err := g.inClone("reset", "--quiet", "--hard", "origin/main"); err != nil {
				return err
			}
		}
		if err := change(g.clone); err != nil {
			return err
		}
		if err := g.inClone("add", "--all"); err != nil {
			return err
		}
		if err := g.inClone("commit", "--quiet", "--message", message); err != nil {
			return err
		}
		if err = g.inClone("push", "--quiet", "origin", "HEAD:main"); err == nil {
			return nil
		}
	}
	return err
}

// has is an error unless a revision of Flux contains a commit.
func (g *gitHost) has(revision, commit string) error {
	_, of, _ := strings.Cut(revision, "sha1:")
	if _, err := g.Git("merge-base", "--is-ancestor", commit, of); err != nil {
		return fmt.Errorf("it is at %q: %w", revision, err)
	}
	return nil
}

// live are the dispatches of an overlay that its syncer applies.
func (g *gitHost) live(overlay string) []string {
	out, err := g.Git("ls-tree", "--name-only", "main", "overlays/"+overlay+"/dispatches/")
	if err != nil {
		return nil
	}
	var names []string
	for line := range strings.Lines(out) {
		name, isManifest := strings.CutSuffix(filepath.Base(strings.TrimSpace(line)), ".yaml")
		if isManifest && name != "kustomization" && name != "state" {
			names = append(names, name)
		}
	}
	return names
}
