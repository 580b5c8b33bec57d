package github_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"muster/gitops/branch"
	"muster/gitops/github"
	"muster/gitops/github/githubtest"
	"muster/gitops/gitserver"
)

// pullsOf are the pull requests of a repository with a branch main and a branch work,
// as somebody with a token sees them, who never really sleeps.
func pullsOf(t *testing.T, token string) (*github.Pulls, *githubtest.Server, string, *[]time.Duration) {
	t.Helper()
	r, err := gitserver.Init(t.TempDir() + "/fleet.git")
	must(t, err)
	_, err = r.Commit("Begin\n", newClock().Now(), branch.Change{Path: "a", Content: []byte("a")})
	must(t, err)
	_, err = r.Git("branch", "work", "main")
	must(t, err)
	sha, err := r.Git("rev-parse", "work")
	must(t, err)
	c := newClock()
	s := serve(t, r, c)
	var slept []time.Duration
	config := github.PullsConfig{Owner: githubtest.Owner, Name: githubtest.Name, API: s.URL, Token: app(s, c).Token, Now: c.Now,
		Sleep: func(_ context.Context, d time.Duration) error { slept = append(slept, d); c.advance(d); return nil }}
	if token != "" {
		config.Token = func(context.Context) (string, error) { return token, nil }
	}
	p, err := github.NewPulls(config)
	must(t, err)
	return p, s, strings.TrimSpace(sha), &slept
}

// TestOpenPullRequest: a branch has one pull request, which is found again; one that is
// closed does not count, and one into itself or of no branch is refused.
func TestOpenPullRequest(t *testing.T) {
	t.Parallel()
	p, s, head, _ := pullsOf(t, githubtest.PersonalToken)
	first, err := p.Open(t.Context(), "work", "main", "Raise max", "why")
	if err != nil || first.Number != 1 || first.Head != head || !first.Open {
		t.Fatalf("%+v, %v", first, err)
	}
	if got, want := s.Pull(1), "work -> main: Raise max\n\nwhy"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	if again, err := p.Open(t.Context(), "work", "main", "Raise max", "why"); err != nil || again != first {
		t.Errorf("again: %+v, %v", again, err)
	}
	if got, err := p.Get(t.Context(), 1); err != nil || got != first {
		t.Errorf("read: %+v, %v", got, err)
	}
	s.ClosePull(1)
	if got, err := p.Get(t.Context(), 1); err != nil || got.Open {
		t.Errorf("closed: %+v, %v", got, err)
	}
	if second, err := p.Open(t.Context(), "work", "main", "Raise max", "why"); err != nil || second.Number != 2 {
		t.Errorf("after it was closed: %+v, %v", second, err)
	}
	if _, err := p.Open(t.Context(), "nowhere", "main", "x", ""); err == nil || !strings.Contains(err.Error(), "422") {
		t.Errorf("of no branch: %v", err)
	}
	if _, err := p.Get(t.Context(), 7); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("one that there is not: %v", err)
	}
}

// TestCommentIsUpdated: a pull request has one comment of the marker, kept up to date,
// however many others there are; saying the same writes nothing.
func TestCommentIsUpdated(t *testing.T) {
	t.Parallel()
	p, s, _, _ := pullsOf(t, githubtest.PersonalToken)
	n := s.AddPull("work", "main")
	for i := range 150 {
		s.Say(n, fmt.Sprintf("talk %d", i))
	}
	s.Say(n, "> <!-- muster -->\nwhat is that?")
	const marker = "<!-- muster -->"
	for i, step := range []struct {
		text    string
		changed bool
	}{{"one", true}, {"one", false}, {"two", true}, {"two\n", false}, {strings.Repeat("é", 70_000), true}} {
		before := s.Writes()
		url, changed, err := p.Comment(t.Context(), n, marker, step.text)
		if err != nil || changed != step.changed || !strings.HasSuffix(url, "#issuecomment-152") {
			t.Fatalf("step %d: %q, %t, %v", i, url, changed, err)
		}
		if wrote := s.Writes() > before; wrote != step.changed {
			t.Errorf("step %d: wrote %t", i, wrote)
		}
	}
	all := s.Comments(n)
	if len(all) != 152 || !strings.HasPrefix(all[151], marker+"\né") || !strings.HasSuffix(all[151], "(cut: GitHub takes no longer comments)\n") {
		t.Errorf("%d comments, the last of which is %.40q...", len(all), all[len(all)-1])
	}
	if _, _, err := p.Comment(t.Context(), 99, marker, "x"); err == nil || !strings.Contains(err.Error(), "reading the comments of pull request 99: not found") {
		t.Errorf("of no pull request: %v", err)
	}
}

// TestCheck: a check has all its annotations, however many GitHub takes at once; a
// person's token may not write one, and that can be told.
func TestCheck(t *testing.T) {
	t.Parallel()
	p, s, head, _ := pullsOf(t, "")
	check := github.Check{Name: "muster", Title: "2 findings", Summary: "**all**", Failed: true}
	for i := range 120 {
		check.Annotations = append(check.Annotations, github.Annotation{Path: "overlays/a/scaling.yaml", Line: i, Failure: i%2 == 0, Text: fmt.Sprint("finding ", i)})
	}
	url, err := p.Check(t.Context(), head, check)
	if err != nil || url == "" {
		t.Fatal(url, err)
	}
	got := s.Checks()[0]
	if got.Conclusion != "failure" || got.HeadSHA != head || len(got.Output.Annotations) != 120 || got.Output.Annotations[119]["message"] != "finding 119" || got.Output.Annotations[0]["start_line"] != 1.0 {
		t.Errorf("%s of %s with %d annotations, the first %v", got.Conclusion, got.HeadSHA, len(got.Output.Annotations), got.Output.Annotations[0])
	}
	if _, err := p.Check(t.Context(), strings.Repeat("1", 40), check); err == nil || errors.Is(err, github.ErrNoChecks) {
		t.Errorf("of no commit: %v", err)
	}
	person, s, head, _ := pullsOf(t, githubtest.PersonalToken)
	if _, err := person.Check(t.Context(), head, check); !errors.Is(err, github.ErrNoChecks) || len(s.Checks()) > 0 {
		t.Errorf("with a person's token: %v", err)
	}
}

// TestLimits: GitHub's limits are waited for, as long as it says, and not for ever; an
// error that is no limit is not.
func TestLimits(t *testing.T) {
	t.Parallel()
	reset := fmt.Sprint(newClock().Now().Add(40 * time.Second).Unix())
	primary := githubtest.Limit{Status: http.StatusForbidden, Header: map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Limit": "5000", "X-RateLimit-Reset": reset}, Words: "API rate limit exceeded"}
	secondary := githubtest.Limit{Status: http.StatusForbidden, Header: map[string]string{"Retry-After": "7"}, Words: "You have exceeded a secondary rate limit"}
	bare := githubtest.Limit{Status: http.StatusTooManyRequests, Words: "Too many requests"}
	unsaid := githubtest.Limit{Status: http.StatusForbidden, Words: "You have exceeded a secondary rate limit. Please wait a few minutes"}
	for _, c := range []struct {
		name   string
		limits []githubtest.Limit
		slept  []time.Duration
		fails  string
	}{
		{"primary", []githubtest.Limit{primary}, []time.Duration{41 * time.Second}, ""},
		{"secondary", []githubtest.Limit{secondary, secondary}, []time.Duration{7 * time.Second, 7 * time.Second}, ""},
		{"without a time", []githubtest.Limit{bare, unsaid}, []time.Duration{time.Minute, time.Minute}, ""},
		{"again and again", []githubtest.Limit{bare, bare, bare, bare}, []time.Duration{time.Minute, time.Minute, time.Minute}, "429: Too many requests"},
		{"too long", []githubtest.Limit{{Status: http.StatusForbidden, Header: map[string]string{"Retry-After": "900"}, Words: "secondary rate limit"}}, nil, "GitHub asks to wait until 2026-11-21T02:30:00Z"},
		{"no access", []githubtest.Limit{{Status: http.StatusForbidden, Words: "Resource not accessible by integration"}}, nil, "403: Resource not accessible by integration"},
		{"a bad gateway", []githubtest.Limit{{Status: http.StatusBadGateway, Words: "Server Error"}}, nil, "502: Server Error"},
	} {
		p, s, _, slept := pullsOf(t, githubtest.PersonalToken)
		n := s.AddPull("work", "main")
		s.LimitNext(c.limits...)
		_, err := p.Get(t.Context(), n)
		if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.fails)
		}
		if fmt.Sprint(*slept) != fmt.Sprint(c.slept) {
			t.Errorf("%s: slept %v, want %v", c.name, *slept, c.slept)
		}
	}
}
