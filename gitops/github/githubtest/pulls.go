package githubtest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// PersonalToken is a person's token: it may write pull requests and comments, and no
// checks (docs.github.com/rest/checks/runs: "To create a check run, you must use a
// GitHub App").
const PersonalToken = "github_pat_person"

// ForkToken is that of a workflow for a pull request from a fork: it may read
// (docs.github.com/actions, "Events that trigger workflows": "GITHUB_TOKEN has read-only
// permissions in pull requests from forked repositories").
const ForkToken = "ghs_fork"

// pulls are the pull requests of the repository, their comments, and checks.
type pulls struct {
	pull     []*pull
	comments []*comment
	checks   []*Check
	limits   []Limit
	writes   int
}

type pull struct {
	number            int
	head, base, title string
	body              string
	closed            bool
}

type comment struct {
	id, pull int
	body     string
}

// Comments are the bodies of a pull request's comments, in order of creation.
func (s *Server) Comments(number int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, c := range s.comments {
		if c.pull == number {
			all = append(all, c.body)
		}
	}
	return all
}

// Say adds a comment by another user.
func (s *Server) Say(number int, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.comments = append(s.comments, &comment{len(s.comments) + 1, number, body})
}

// Writes is how many comments, pull requests and checks were written.
func (s *Server) Writes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

// AddPull opens a pull request, and returns its number. ClosePull closes it.
func (s *Server) AddPull(head, base string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pull = append(s.pull, &pull{number: len(s.pull) + 1, head: head, base: base})
	return len(s.pull)
}

// ClosePull closes a pull request.
func (s *Server) ClosePull(number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pull[number-1].closed = true
}

// Pull is a pull request: head and base, title and body.
func (s *Server) Pull(number int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pull[number-1]
	return fmt.Sprintf("%s -> %s: %s\n\n%s", p.head, p.base, p.title, p.body)
}

func (s *Server) pullJSON(p *pull) (map[string]any, error) {
	sha, err := s.git("rev-parse", "--verify", "--quiet", "refs/heads/"+p.head)
	if err != nil {
		return nil, problem{http.StatusUnprocessableEntity, "Validation Failed"}
	}
	state := "open"
	if p.closed {
		state = "closed"
	}
	return map[string]any{"number": p.number, "state": state, "title": p.title, "body": p.body, "html_url": fmt.Sprintf("https://github.com/%s/%s/pull/%d", Owner, Name, p.number),
		"head": map[string]string{"ref": p.head, "sha": sha}, "base": map[string]string{"ref": p.base}}, nil
}

// openPull opens a pull request, unless there is one of the same branches.
func (s *Server) openPull(_ *http.Request, ask struct{ Title, Head, Base, Body string }) (int, any, error) {
	for _, p := range s.pull {
		if p.head == ask.Head && p.base == ask.Base && !p.closed {
			return 0, nil, problem{http.StatusUnprocessableEntity, "A pull request already exists for " + Owner + ":" + ask.Head + "."}
		}
	}
	p := &pull{number: len(s.pull) + 1, head: ask.Head, base: ask.Base, title: ask.Title, body: ask.Body}
	body, err := s.pullJSON(p)
	if err == nil {
		s.pull = append(s.pull, p)
	}
	return http.StatusCreated, body, err
}

func (s *Server) listPulls(r *http.Request) (int, any, error) {
	all := []map[string]any{}
	for _, p := range s.pull {
		if !p.closed && r.FormValue("head") == Owner+":"+p.head && r.FormValue("base") == p.base {
			body, err := s.pullJSON(p)
			if err != nil {
				return 0, nil, err
			}
			all = append(all, body)
		}
	}
	return http.StatusOK, all, nil
}

// numbered returns the element of a list that the path of a request names by its number, from 1.
func numbered[T any](r *http.Request, list []*T) (*T, error) {
	n, err := strconv.Atoi(r.PathValue("number"))
	if err != nil || n < 1 || n > len(list) {
		return nil, problem{http.StatusNotFound, "Not Found"}
	}
	return list[n-1], nil
}

func (s *Server) getPull(r *http.Request) (int, any, error) {
	p, err := numbered(r, s.pull)
	if err != nil {
		return 0, nil, err
	}
	body, err := s.pullJSON(p)
	return http.StatusOK, body, err
}

func commentJSON(c *comment) map[string]any {
	return map[string]any{"id": c.id, "body": c.body, "html_url": fmt.Sprintf("https://github.com/%s/%s/pull/%d#issuecomment-%d", Owner, Name, c.pull, c.id)}
}

// listComments returns at most a hundred, even if the request wants more: docs.github.com/rest/issues/comments.
func (s *Server) listComments(r *http.Request) (int, any, error) {
	p, err := numbered(r, s.pull)
	if err != nil {
		return 0, nil, err
	}
	all := []map[string]any{}
	for _, c := range s.comments {
		if c.pull == p.number {
			all = append(all, commentJSON(c))
		}
	}
	size, page := 30, 1
	if n, err := strconv.Atoi(r.FormValue("per_page")); err == nil && n > 0 {
		size = min(n, 100)
	}
	if n, err := strconv.Atoi(r.FormValue("page")); err == nil && n > 0 {
		page = n
	}
	from := min((page-1)*size, len(all))
	to := min(from+size, len(all))
	var link string
	if to < len(all) {
		link = fmt.Sprintf(`<%s?page=%d&per_page=%d>; rel="next"`, strings.TrimSuffix(s.URL, "/")+r.URL.Path, page+1, size)
	}
	return http.StatusOK, linked{all[from:to], link}, nil
}

// linked is an answer with a Link header.
type linked struct {
	body any
	link string
}

// commentInput is a comment to be written.
type commentInput struct{ Body string }

// problem returns why GitHub does not take the comment: it takes 65,536 characters.
func (in commentInput) problem() error {
	switch {
	case in.Body == "":
		return problem{http.StatusUnprocessableEntity, "Validation Failed: body can't be blank"}
	case len(in.Body) > 65_536:
		return problem{http.StatusUnprocessableEntity, "Validation Failed: body is too long (maximum is 65536 characters)"}
	}
	return nil
}

func (s *Server) createComment(r *http.Request, in commentInput) (int, any, error) {
	p, err := numbered(r, s.pull)
	if err == nil {
		err = in.problem()
	}
	if err != nil {
		return 0, nil, err
	}
	c := &comment{len(s.comments) + 1, p.number, in.Body}
	s.comments = append(s.comments, c)
	return http.StatusCreated, commentJSON(c), nil
}

func (s *Server) editComment(r *http.Request, in commentInput) (int, any, error) {
	c, err := numbered(r, s.comments)
	if err == nil {
		err = in.problem()
	}
	if err != nil {
		return 0, nil, err
	}
	c.body = in.Body
	return http.StatusOK, commentJSON(c), nil
}

// writing returns a handler for requests that write pull requests, comments or checks. It refuses
// tokens that may not, and counts what was written.
func (s *Server) writing(allowed func(*http.Request) error, next handler) handler {
	return s.locked(func(r *http.Request) (int, any, error) {
		if err := allowed(r); err != nil {
			return 0, nil, err
		}
		status, body, err := next(r)
		if err == nil {
			s.writes++
		}
		return status, body, err
	})
}

// mayWrite refuses a token that may read alone.
func mayWrite(r *http.Request) error {
	if strings.HasSuffix(r.Header.Get("Authorization"), " "+ForkToken) {
		return problem{http.StatusForbidden, "Resource not accessible by integration"}
	}
	return nil
}
