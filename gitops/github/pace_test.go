package github_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"muster/gitops/branch"
	"muster/gitops/github"
	"muster/gitops/github/githubtest"
	"muster/gitops/unraced"
)

// paper is a branch of which only the head is kept, and GitHub's API for it: what limits
// needs no files.
type paper struct {
	head string
	made int
}

func (p *paper) Head(context.Context) (branch.Head, error) {
	return branch.Head{Commit: p.head, Tree: fstest.MapFS{}}, nil
}

func (p *paper) Commits(context.Context, string, branch.Limit) iter.Seq2[branch.Commit, error] {
	return nil
}

func (p *paper) File(context.Context, string, string) ([]byte, error) {
	return nil, errors.ErrUnsupported
}

func (p *paper) Edits(context.Context, []branch.Commit, map[string]string, branch.Selection) ([]branch.Edits, error) {
	return nil, errors.ErrUnsupported
}

func (p *paper) HasBranch(context.Context, string) (bool, error) {
	return false, errors.ErrUnsupported
}

func (p *paper) Past(context.Context, string, []string) (branch.Head, error) {
	return branch.Head{}, errors.ErrUnsupported
}

func (p *paper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Query     string
		Variables struct{ Input githubtest.CommitInput }
	}
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if !strings.HasPrefix(ask.Query, "mutation") {
		fmt.Fprint(w, `{"data": {"repository": {"id": "R", "ref": {"id": "REF"}}}}`)
		return
	}
	if ask.Variables.Input.ExpectedHeadOid != p.head {
		fmt.Fprint(w, `{"errors": [{"type": "STALE_DATA", "message": "Expected branch to point to another commit"}]}`)
		return
	}
	p.made++
	p.head = fmt.Sprintf("%040d", p.made)
	fmt.Fprintf(w, `{"data": {"createCommitOnBranch": {"commit": {"oid": %q, "signature": {"isValid": true}}}}}`, p.head)
}

// limitedWriter is a writer through a server that limits.
func limitedWriter(t *testing.T, c *clock) (*github.Writer, *githubtest.Limiter) {
	t.Helper()
	p := &paper{head: strings.Repeat("0", 40)}
	limiter := &githubtest.Limiter{Now: c.Now}
	server := httptest.NewServer(limiter.Wrap(p))
	t.Cleanup(server.Close)
	w, err := github.NewWriter(github.Config{Repository: p, Owner: "acme", Name: "fleet", API: server.URL, Now: c.Now,
		Token: func(context.Context) (string, error) { return "ghs_1", nil }})
	must(t, err)
	return w, limiter
}

// land pushes one operation, waits as required, and returns how often.
func land(t *testing.T, w *github.Writer, c *clock, n int) (waits int) {
	t.Helper()
	for {
		head, err := w.Head(t.Context())
		must(t, err)
		_, err = w.Push(t.Context(), head, commit(fmt.Sprint("act-", n), []byte("x")))
		var wait interface{ RetryAfter() time.Duration }
		if !errors.As(err, &wait) {
			must(t, err)
			return waits
		}
		waits++
		c.advance(wait.RetryAfter())
	}
}

// TestLimitsOfBusyDay: 4,000 operations of a day, half of them in four bursts of ten minutes, land with
// one write each, and GitHub refuses none.
func TestLimitsOfBusyDay(t *testing.T) {
	unraced.Only(t)
	const acts = 4000
	c := newClock()
	w, limiter := limitedWriter(t, c)
	start, dice := c.Now(), rand.New(rand.NewPCG(14, 2))
	var due []time.Duration
	for i := range acts {
		if at := time.Duration(dice.Int64N(int64(24 * time.Hour))); i%2 == 0 {
			due = append(due, at)
		} else {
			due = append(due, time.Duration(dice.IntN(4)*5)*time.Hour+time.Duration(dice.Int64N(int64(10*time.Minute))))
		}
	}
	slices.Sort(due)
	var longest time.Duration
	for i, at := range due {
		if early := start.Add(at).Sub(c.Now()); early > 0 {
			c.advance(early)
		}
		land(t, w, c, i)
		longest = max(longest, c.Now().Sub(start.Add(at)))
	}
	took := c.Now().Sub(start)
	t.Logf("%d operations in %d writes, the last after %s; an operation waited %s at most", acts, limiter.Writes(), took.Round(time.Minute), longest.Round(time.Second))
	if limiter.Writes() != acts || limiter.Refused() > 0 || limiter.Early() > 0 {
		t.Errorf("%d writes, %d requests refused, %d of them early; want %d, 0 and 0", limiter.Writes(), limiter.Refused(), limiter.Early(), acts)
	}
	if took > 24*time.Hour {
		t.Errorf("the operations of a day took %s", took)
	}
}

// TestLimitsSharedWithOthers: if others use most of GitHub's write limit, refused operations wait as
// long as GitHub requires, and every operation lands.
func TestLimitsSharedWithOthers(t *testing.T) {
	t.Parallel()
	c := newClock()
	w, limiter := limitedWriter(t, c)
	const acts = 500
	for i := range acts {
		limiter.Spend()
		limiter.Spend()
		land(t, w, c, i)
	}
	t.Logf("%d requests refused", limiter.Refused())
	if limiter.Writes() != acts || limiter.Refused() == 0 || limiter.Early() > 0 {
		t.Errorf("%d writes, %d requests refused, %d of them early; want %d, some and 0", limiter.Writes(), limiter.Refused(), limiter.Early(), acts)
	}
}

// TestPace: a burst is free, and later writes are paced.
func TestPace(t *testing.T) {
	t.Parallel()
	c := newClock()
	w, limiter := limitedWriter(t, c)
	n := 0
	for ; land(t, w, c, n) == 0; n++ {
	}
	if n < 60 || n >= githubtest.MinuteContent {
		t.Errorf("%d operations at once, want almost %d", n, githubtest.MinuteContent)
	}
	if limiter.Refused() > 0 {
		t.Errorf("GitHub refused %d requests", limiter.Refused())
	}
}
