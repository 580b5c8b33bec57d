package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/go-github/v50/github"
)

// PullsConfig selects a repository. All but API is required.
type PullsConfig struct {
	Owner, Name string
	// API is the address of GitHub's API; empty means https://api.github.com/.
	API string
	// Token returns a token: of an App, of a workflow, or of a person.
	Token func(context.Context) (string, error)
	// Now is the clock, and Sleep waits, until the context ends.
	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error
}

// Pulls are the pull requests of one repository. It is used by one goroutine at a time.
type Pulls struct {
	PullsConfig
	client *github.Client
}

// NewPulls validates the address of the API. It does not connect.
func NewPulls(c PullsConfig) (*Pulls, error) {
	client, err := newClient(c.API, nil, tokens{get: c.Token})
	if err != nil {
		return nil, err
	}
	return &Pulls{PullsConfig: c, client: client}, nil
}

const (
	// longestWait and maxWaits limit the waits for GitHub's limits.
	longestWait, maxWaits = 5 * time.Minute, 3
	// secondaryWait is the minimum wait if GitHub sets no time
	// (docs.github.com/rest, "Rate limits for the REST API": "wait for at least one minute").
	secondaryWait = time.Minute
)

// do sends a request, and repeats it after a limit that ends soon. A limited request has no effect.
func do[T any](ctx context.Context, p *Pulls, request func() (T, *github.Response, error)) (T, error) {
	for waits := 0; ; waits++ {
		result, _, err := request()
		if err == nil {
			return result, nil
		}
		wait, limited := p.limit(err)
		if !limited || waits == maxWaits {
			return result, explain(err)
		}
		if wait > longestWait {
			until := p.Now().Add(wait).UTC().Format(time.RFC3339)
			return result, fmt.Errorf("GitHub asks to wait until %s: %w", until, explain(err))
		}
		if err := p.Sleep(ctx, wait); err != nil {
			return result, err
		}
	}
}

// limit reports whether a request exceeded one of GitHub's limits, and how long to wait.
func (p *Pulls) limit(err error) (time.Duration, bool) {
	var primary *github.RateLimitError
	if errors.As(err, &primary) {
		return max(time.Second, primary.Rate.Reset.Sub(p.Now())+time.Second), true
	}
	return limitOf(err)
}

// Pull contains the fields of a pull request that muster needs.
type Pull struct {
	Number int
	// URL is its page, Base the branch that it is to be merged into, Head its last commit.
	URL, Base, Head string
	// Open reports whether it is neither merged nor closed.
	Open bool
}

// Get reads a pull request.
func (p *Pulls) Get(ctx context.Context, number int) (Pull, error) {
	got, err := do(ctx, p, func() (*github.PullRequest, *github.Response, error) {
		return p.client.PullRequests.Get(ctx, p.Owner, p.Name, number)
	})
	if err != nil {
		return Pull{}, fmt.Errorf("reading pull request %d: %w", number, err)
	}
	return Pull{Number: number, URL: got.GetHTMLURL(), Base: got.GetBase().GetRef(), Head: got.GetHead().GetSHA(), Open: got.GetState() == "open"}, nil
}

// Open opens a pull request from one branch of the repository into another. If one
// exists already, Open returns that.
func (p *Pulls) Open(ctx context.Context, head, base, title, body string) (Pull, error) {
	pull, err := do(ctx, p, func() (*github.PullRequest, *github.Response, error) {
		asked := &github.NewPullRequest{Title: &title, Head: &head, Base: &base, Body: &body}
		return p.client.PullRequests.Create(ctx, p.Owner, p.Name, asked)
	})
	if err != nil && strings.Contains(err.Error(), "already exists") {
		found, listErr := do(ctx, p, func() ([]*github.PullRequest, *github.Response, error) {
			options := &github.PullRequestListOptions{Head: p.Owner + ":" + head, Base: base}
			return p.client.PullRequests.List(ctx, p.Owner, p.Name, options)
		})
		if listErr == nil && len(found) > 0 {
			pull, err = found[0], nil
		}
	}
	if err != nil {
		return Pull{}, fmt.Errorf("opening a pull request for %s: %w", head, err)
	}
	return Pull{Number: pull.GetNumber(), URL: pull.GetHTMLURL(), Base: base, Head: pull.GetHead().GetSHA(), Open: true}, nil
}

// ErrReadOnly is returned if the token may only read, like that of a workflow for a pull request from a
// fork.
var ErrReadOnly = errors.New("the token may not write here, as with a pull request from a fork")

// readOnly reports whether an error means that a token may not write.
func readOnly(err error) bool {
	var said *github.ErrorResponse
	return errors.As(err, &said) && said.Response.StatusCode == http.StatusForbidden
}

// longestComment is the maximum length of a comment in bytes, a little less than GitHub's (65,536
// characters).
const longestComment = 65_000

// Comment keeps one comment of a pull request up to date: the one that begins with the
// marker, an HTML comment, which is invisible. It creates a missing comment and leaves
// an equal one unchanged. changed reports whether something was written.
// [ErrReadOnly] means that the token may not write.
func (p *Pulls) Comment(ctx context.Context, number int, marker, text string) (url string, changed bool, err error) {
	body := marker + "\n" + text
	if len(body) > longestComment {
		body = strings.ToValidUTF8(body[:longestComment], "") + "\n\n(cut: GitHub takes no longer comments)\n"
	}
	old, err := p.comment(ctx, number, marker)
	if err != nil {
		return "", false, fmt.Errorf("reading the comments of pull request %d: %w", number, err)
	}
	if old != nil && strings.TrimRight(strings.ReplaceAll(old.GetBody(), "\r\n", "\n"), "\n") == strings.TrimRight(body, "\n") {
		return old.GetHTMLURL(), false, nil
	}
	made, err := do(ctx, p, func() (*github.IssueComment, *github.Response, error) {
		if old == nil {
			return p.client.Issues.CreateComment(ctx, p.Owner, p.Name, number, &github.IssueComment{Body: &body})
		}
		return p.client.Issues.EditComment(ctx, p.Owner, p.Name, old.GetID(), &github.IssueComment{Body: &body})
	})
	if readOnly(err) {
		err = fmt.Errorf("%w (%w)", ErrReadOnly, err)
	}
	if err != nil {
		return "", false, fmt.Errorf("commenting on pull request %d: %w", number, err)
	}
	return made.GetHTMLURL(), true, nil
}

// comment returns the comment that begins with a marker; nil if none does.
func (p *Pulls) comment(ctx context.Context, number int, marker string) (*github.IssueComment, error) {
	options := &github.IssueListCommentsOptions{ListOptions: github.ListOptions{PerPage: 100}}
	for {
		page, err := do(ctx, p, func() ([]*github.IssueComment, *github.Response, error) {
			page, response, err := p.client.Issues.ListComments(ctx, p.Owner, p.Name, number, options)
			if err == nil {
				options.Page = response.NextPage
			}
			return page, response, err
		})
		if err != nil {
			return nil, err
		}
		for _, c := range page {
			if strings.HasPrefix(c.GetBody(), marker) {
				return c, nil
			}
		}
		if options.Page == 0 {
			return nil, nil
		}
	}
}
