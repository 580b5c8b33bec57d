package generator_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"muster/generator"
	"muster/gitops/branch"
	"muster/gitops/gitserver"
)

// headsOnly is a host that sends only what its branch is at, and says so by a status, as
// Dulwich does, and beside which somebody else pushes at the worst moments.
type headsOnly struct {
	t          *testing.T
	repository gitserver.Repository
	// conflicts is before how many pushes somebody else is first. until is how many requests for
	// more than the head alone are answered before one that finds the branch elsewhere.
	conflicts, until int
	pushed           int
}

func (h *headsOnly) theirs() {
	h.t.Helper()
	h.pushed++
	if _, err := h.repository.Commit("note\n", scenarioStart(), branch.Change{Path: fmt.Sprintf("notes/%d", h.pushed), Content: []byte("x")}); err != nil {
		h.t.Error(err)
	}
}

func (h *headsOnly) upload(w http.ResponseWriter, r *http.Request, next http.Handler) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		h.t.Error(err)
	}
	if bytes.Contains(body, []byte("deepen ")) && !bytes.Contains(body, []byte("deepen 1\n")) {
		if h.until == 0 {
			h.theirs()
		}
		h.until--
	}
	if head, _ := h.repository.Head(); !strings.Contains(string(body), "want "+head) || bytes.Contains(body, []byte("shallow ")) && !bytes.Contains(body, []byte("deepen ")) {
		gitserver.Response{Status: http.StatusInternalServerError, Words: "Internal Server Error"}.Write(w)
		return
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	next.ServeHTTP(w, r)
}

func (h *headsOnly) receive(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if h.conflicts > 0 {
		h.conflicts--
		h.theirs()
	}
	next.ServeHTTP(w, r)
}

// TestTheLogOfABranchThatMoves: where somebody else pushes while the log is read after a
// lost race, whichever request that is, it is another lost race, and nothing is wrong with
// the overlay.
func TestTheLogOfABranchThatMoves(t *testing.T) {
	t.Parallel()
	for until, tried := 0, true; tried; until++ {
		t.Run(fmt.Sprint(until), func(t *testing.T) {
			b, h := newBench("a"), &headsOnly{t: t, repository: gitserver.NewRepository(t), until: -1}
			g := h.generator(b)
			b.jobs("a", 2)
			tick(t, g)
			b.jobs("a", 4)
			h.conflicts, h.until = 1, until
			r := tick(t, g)
			if got := kinds(r.Operations); got != "a: dispatch 4" || len(r.Suspended) > 0 {
				t.Errorf("%q after %d races, suspended %v", got, r.Conflicts, r.Suspended)
			}
			if log := b.log.String(); strings.Contains(log, "level=ERROR") {
				t.Errorf("the log says\n%s", log)
			}
			tried = h.until < 0
		})
	}
}

// generator serves the fleet of a bench, and is one that goes by it.
func (h *headsOnly) generator(b *bench) *generator.Generator {
	h.t.Helper()
	b.commitFiles(h.t, h.repository)
	strict := gitserver.Strict{Hides: gitserver.Dulwich().Hides, Upload: h.upload, Receive: h.receive}
	server, err := gitserver.Serve(filepath.Dir(h.repository.Dir), gitserver.Options{Wrap: strict.Wrap})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(server.Close)
	g, _ := served(h.t, b, server.URL+"/fleet.git")
	return g
}
