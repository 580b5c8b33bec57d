package gitops

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/gitops/branch"
	"muster/gitops/gitserver"
	"muster/testdata/bench"
)

// decideRole makes one decision: if the head does not have it yet, it is
// committed. Time and content do not depend on the process, as muster's do not.
func decideRole() error {
	r, err := New(Config{URL: os.Getenv("URL")})
	if err != nil {
		return err
	}
	ctx := context.Background()
	for {
		head, err := r.Head(ctx)
		if err != nil {
			return err
		}
		const name = "overlays/default/dispatches/decision.yaml"
		if _, err := fs.ReadFile(head.Tree, name); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		_, err = r.Push(ctx, head, []branch.Draft{{Message: "decide\n", At: time.Unix(1_700_000_000, 0), Changes: []branch.Change{{Path: name, Content: []byte("decision\n")}}}})
		if !errors.Is(err, branch.ErrMoved) {
			return err
		}
	}
}

// killer is a server that kills the client at its n-th request: with lost,
// the request is lost too; without, the server carries on with it.
type killer struct {
	mu   sync.Mutex
	n    int
	lost bool
	kill func()
	seen int
	// over is closed when the request of the killing has been dealt with.
	over chan struct{}
}

func (k *killer) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k.mu.Lock()
		now := k.seen == k.n
		k.seen++
		kill := k.kill
		k.mu.Unlock()
		if !now || kill == nil {
			next.ServeHTTP(w, r)
			return
		}
		defer close(k.over)
		body, _ := io.ReadAll(r.Body)
		kill()
		if !k.lost {
			r = r.Clone(context.WithoutCancel(r.Context()))
			r.Body = io.NopCloser(bytes.NewReader(body))
			next.ServeHTTP(httptest.NewRecorder(), r)
		}
		panic(http.ErrAbortHandler)
	})
}

// TestKilledBetweenAnyTwoSteps kills the process at every request that a
// decision takes, before and after the server has acted on it, and runs it
// again: the branch is whole, and the decision is in it once.
func TestKilledBetweenAnyTwoSteps(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{true, false} {
		landed := 0
		for n := 0; ; n++ {
			k := &killer{n: n, lost: lost, over: make(chan struct{})}
			f := gitserver.NewServer(t, gitserver.Options{Wrap: k.wrap})
			if _, err := f.Commit("seed", time.Unix(1_600_000_000, 0), branch.Change{Path: "overlays/default/scaling.yaml", Content: []byte("x")}); err != nil {
				t.Fatal(err)
			}
			killed := decideAndDie(t, k, f.URL())
			if out, err := f.Git("log", "--format=%s", "main"); err != nil {
				t.Fatal(err)
			} else if strings.Contains(out, "decide") && killed {
				landed++
			}
			if err := exec.Command("git", "-C", f.Dir, "fsck", "--strict", "--connectivity-only").Run(); err != nil {
				t.Errorf("after death at request %d: fsck: %v", n, err)
			}
			k.disarm()
			if out, err := decision(f.URL()).CombinedOutput(); err != nil {
				t.Fatalf("the second run: %v\n%s", err, out)
			}
			if out, err := f.Git("log", "--format=%s", "main"); err != nil || out != "decide\nseed\n" {
				t.Errorf("after death at request %d (lost %v) the log is %q, %v", n, lost, out, err)
			}
			if !killed {
				if n < 4 {
					t.Errorf("a decision took %d requests: not all steps are seen", n)
				}
				break
			}
		}
		if want := map[bool]int{true: 0, false: 1}[lost]; landed != want {
			t.Errorf("with requests lost %v, the decision landed %d times before the death was noticed, want %d", lost, landed, want)
		}
	}
}

func decision(url string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(cmd.Environ(), roleVariable+"=decide", "URL="+url, "GORACE=atexit_sleep_ms=0")
	return cmd
}

func (k *killer) disarm() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kill = nil
}

// decideAndDie runs the decision and reports whether it was killed.
func decideAndDie(t *testing.T, k *killer, url string) bool {
	t.Helper()
	cmd := decision(url)
	dead := make(chan struct{})
	k.mu.Lock()
	err := cmd.Start()
	process := cmd.Process
	k.kill = func() {
		_ = process.Kill()
		<-dead
	}
	k.mu.Unlock()
	bench.Check(t, err)
	err = cmd.Wait()
	close(dead)
	if err == nil {
		return false
	}
	if cmd.ProcessState.Exited() {
		t.Fatalf("the decision: %v", err)
	}
	<-k.over
	return true
}
