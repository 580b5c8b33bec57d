package github_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/gitops/branch"
	"muster/gitops/github/githubtest"
	"muster/gitops/gitserver"
)

// made renders what a server was asked to write, as in "1 commits, 2 trees".
func made(s *githubtest.Server) string {
	var all []string
	counts := s.Made()
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, fmt.Sprintf("%d %s", counts[what], what))
	}
	return strings.Join(all, ", ")
}

func file(name, content string) branch.Change {
	return branch.Change{Path: "overlays/" + name, Content: []byte(content)}
}

// executable puts an executable file into the repository.
func executable(t *testing.T, r gitserver.Repository) {
	t.Helper()
	stream := "commit refs/heads/main\ncommitter a <a@example.com> 1700000000 +0000\ndata 4\nmode\nfrom refs/heads/main^0\nM 100755 inline overlays/run\ndata 1\nx\n"
	_, err := r.GitInput([]byte(stream), "fast-import", "--quiet")
	must(t, err)
}

// TestRequestsOfCommits: what createCommitOnBranch can express is one request that writes, and what
// it cannot goes by trees; what changes nothing is not sent.
func TestRequestsOfCommits(t *testing.T) {
	t.Parallel()
	many := func(n int) []branch.Change {
		var all []branch.Change
		for i := range n {
			all = append(all, file(fmt.Sprintf("many/%03d", i), "x"))
		}
		return all
	}
	one := func(message string, changes ...branch.Change) []branch.Draft {
		return []branch.Draft{{Message: message, Changes: changes}}
	}
	const single, trees = "1 createCommitOnBranch", "1 commits, 1 trees, 1 updateRefs"
	for name, c := range map[string]struct {
		drafts []branch.Draft
		want   string
	}{
		"an act":                     {one("a: dispatch 1\n\nwhy\n\nOperation: dispatch\n", file("a", "a"), file("default/scaling.yaml", "y")), single},
		"a removal":                  {one("a\n", branch.Change{Path: "overlays/default/scaling.yaml"}), single},
		"what is no text":            {one("a\n", file("a", "\xff\x00\xfe")), single},
		"a message without newline":  {one("a", file("a", "a")), single},
		"an executable file removed": {one("a\n", branch.Change{Path: "overlays/run"}), single},
		"150 files":                  {one("a\n", many(150)...), single},
		"others that change nothing": {append(one("none\n", file("run", "x")), one("a\n", file("a", "a"), file("run", "x"))...), single},

		"an executable file":        {one("a\n", file("run", "y")), trees},
		"a message of two lines":    {one("a\nb\n", file("a", "a")), trees},
		"space around the words":    {one("a \n\nb\n", file("a", "a")), trees},
		"no words":                  {one("\n", file("a", "a")), trees},
		"151 files":                 {one("a\n", many(151)...), "1 commits, 2 trees, 1 updateRefs"},
		"more than fits at once":    {one("a\n", file("a", strings.Repeat("x", 1_500_000)), file("b", strings.Repeat("y", 1_500_000))), "1 commits, 2 trees, 1 updateRefs"},
		"two acts":                  {append(one("a\n", file("a", "a")), one("b\n", file("b", "b"))...), "2 commits, 2 trees, 1 updateRefs"},
		"trees and what is no text": {one("a\n", file("run", "\xff")), "1 blobs, 1 commits, 1 trees, 1 updateRefs"},

		"nothing":               {one("a\n", file("default/scaling.yaml", "x"), branch.Change{Path: "overlays/none"}), ""},
		"the same in the chain": {append(one("a\n", file("a", "a")), one("b\n", file("a", "a"))...), single},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, c2 := seeded(t), newClock()
			executable(t, r)
			s := serve(t, r, c2)
			w := writer(t, r, s, app(s, c2))
			tip, err := w.Head(t.Context())
			must(t, err)
			tip, err = w.Push(t.Context(), tip, c.drafts)
			must(t, err)
			if got := made(s); got != c.want {
				t.Errorf("it wrote %q, want %q", got, c.want)
			}
			if head, err := r.Head(); err != nil || head != tip.Commit {
				t.Errorf("the branch is at %s, Push returned %s (%v)", head, tip.Commit, err)
			}
			last := c.drafts[len(c.drafts)-1]
			if message, err := r.Git("log", "-1", "--format=%B"); c.want != "" && strings.TrimSpace(last.Message) != "" && name != "the same in the chain" && (err != nil || strings.TrimSpace(message) != strings.TrimSpace(last.Message)) {
				t.Errorf("the message is %q, want %q (%v)", message, last.Message, err)
			}
			for _, change := range last.Changes {
				got, err := r.ReadFile(change.Path)
				if change.Content != nil && (err != nil || string(got) != string(change.Content)) || change.Content == nil && err == nil {
					t.Errorf("%s has %.20q, want %.20q (%v)", change.Path, got, change.Content, err)
				}
			}
			if out, err := r.Git("fsck", "--strict", "--full"); err != nil {
				t.Errorf("fsck: %v\n%s", err, out)
			}
		})
	}
}

// TestResponseLost asserts what Push returns if the response to a commit is lost: the commit if it was
// made, also if others have committed on top of it; a conflict if others committed instead; and
// otherwise an error after which the same push succeeds.
func TestResponseLost(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ made, others bool }{
		"made": {true, false}, "made, and others on top": {true, true}, "not made": {false, false}, "not made, but others": {false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, c, s, w, head := opened(t)
			s.LoseNext(test.made, func() {
				if !test.others {
					return
				}
				if _, err := r.Commit("theirs", c.Now(), file("theirs", "x")); err != nil {
					t.Error(err)
				}
			})
			got, err := w.Push(t.Context(), head, commit("a", []byte("a")))
			switch {
			case test.made:
				commits, logErr := r.Git("log", "--format=%H %s", "main")
				if err != nil || logErr != nil || !strings.Contains(commits, got.Commit+" a\n") {
					t.Errorf("Push returned %s, %v; the log is %s", got.Commit, err, commits)
				}
			case test.others:
				if !errors.Is(err, branch.ErrMoved) {
					t.Errorf("Push: %v, want ErrMoved", err)
				}
			default:
				var refused *branch.Refused
				if err == nil || errors.Is(err, branch.ErrMoved) || errors.As(err, &refused) {
					t.Errorf("Push: %v", err)
				}
				if now, _ := r.Head(); now != head.Commit {
					t.Error("the branch moved")
				}
				if _, err := w.Push(t.Context(), head, commit("a", []byte("a"))); err != nil {
					t.Errorf("again: %v", err)
				}
			}
		})
	}
}

// TestLimitOfACommit: a limit that meets the one request is no refusal of the commit and is waited for,
// at most an hour, and the pace after it is slow.
func TestLimitOfACommit(t *testing.T) {
	t.Parallel()
	for words, test := range map[string]struct {
		header map[string]string
		want   time.Duration
	}{
		// docs.github.com/rest, "Rate limits for the REST API", "Exceeding the rate limit".
		"You have exceeded a secondary rate limit": {map[string]string{"Retry-After": "86400"}, time.Hour},
		"abuse detection mechanism": {map[string]string{
			"Retry-After": "Fri, 21 Nov 2025 02:30:50 GMT", "Date": "Fri, 21 Nov 2025 02:30:00 GMT", // RFC 9110, 10.2.3
		}, 50 * time.Second},
		"API rate limit exceeded for installation ID 42": {map[string]string{
			"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1763692240", "Date": "Fri, 21 Nov 2025 02:30:00 GMT",
		}, 41 * time.Second},
	} {
		_, c, s, w, head := opened(t)
		head, err := w.Push(t.Context(), head, commit("a", []byte("a")))
		must(t, err)
		s.LimitNext(githubtest.Limit{Status: http.StatusForbidden, Header: test.header, Words: words})
		_, err = w.Push(t.Context(), head, commit("b", []byte("b")))
		var wait interface{ RetryAfter() time.Duration }
		var refused *branch.Refused
		if !errors.As(err, &wait) || wait.RetryAfter() != test.want || errors.As(err, &refused) ||
			!strings.Contains(err.Error(), words) {
			t.Errorf("%v, want to wait %s", err, test.want)
		}
		_, err = w.Push(t.Context(), head, commit("b", []byte("b")))
		if !errors.As(err, &wait) || !strings.Contains(err.Error(), "GitHub's limits (80 writes a minute, 500 an hour)") {
			t.Errorf("at once again: %v", err)
		}
		c.advance(test.want)
		_, err = w.Push(t.Context(), head, commit("b", []byte("b")))
		must(t, err)
	}
}

// TestChain: several commits at once, which go by the tree API, land all or none, as one
// does: after a lost answer, on a branch that was set back, and where GitHub refuses.
func TestChain(t *testing.T) {
	t.Parallel()
	r, _, s, w, first := opened(t)
	two := func(a, b string) []branch.Draft { return append(commit(a, []byte(a)), commit(b, []byte(b))...) }
	s.LoseNext(true, nil)
	tip, err := w.Push(t.Context(), first, two("a", "b"))
	if err != nil {
		t.Fatalf("the branch has moved, but: %v", err)
	}
	if head, _ := r.Head(); head != tip.Commit {
		t.Errorf("the branch is at %s, Push returned %s", head, tip.Commit)
	}
	_, err = r.Git("update-ref", "refs/heads/main", first.Commit)
	must(t, err)
	if _, err := w.Push(t.Context(), tip, two("c", "d")); !errors.Is(err, branch.ErrMoved) {
		t.Errorf("on a branch that was set back: %v, want ErrMoved", err)
	}
	if head, _ := r.Head(); head != first.Commit {
		t.Errorf("the branch is at %s, want %s", head, first.Commit)
	}
	s.Refuse("the branch is protected")
	_, err = w.Push(t.Context(), first, two("e", "f"))
	var refused *branch.Refused
	if !errors.As(err, &refused) || !strings.Contains(refused.Message, "the branch is protected") {
		t.Errorf("Push: %v, want a Refused with GitHub's words", err)
	}
	if got, want := made(s), "6 commits, 6 trees, 3 updateRefs"; got != want {
		t.Errorf("it wrote %s, want %s", got, want)
	}
}
