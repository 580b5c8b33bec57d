package githubtest

import (
	"fmt"
	"net/http"
	"strings"
)

// Check is a check run.
type Check struct {
	ID         int    `json:"id"`
	Name       string `json:"name"`
	HeadSHA    string `json:"head_sha"`
	Conclusion string `json:"conclusion"`
	Output     struct {
		Title, Summary string
		Annotations    []map[string]any
	} `json:"output"`
	URL string `json:"html_url"`
}

// Checks are the check runs, in order of creation.
func (s *Server) Checks() []Check {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Check
	for _, c := range s.checks {
		all = append(all, *c)
	}
	return all
}

// mayCheck returns an error unless the request has the token of a GitHub App.
func mayCheck(r *http.Request) error {
	if strings.HasSuffix(r.Header.Get("Authorization"), " "+PersonalToken) {
		return problem{http.StatusForbidden, "Resource not accessible by personal access token"}
	}
	return mayWrite(r)
}

func (s *Server) createCheck(_ *http.Request, c *Check) (int, any, error) {
	if _, err := s.git("cat-file", "-e", c.HeadSHA+"^{commit}"); err != nil {
		return 0, nil, problem{http.StatusUnprocessableEntity, "No commit found for SHA: " + c.HeadSHA}
	}
	if err := tooMany(c); err != nil {
		return 0, nil, err
	}
	c.ID = len(s.checks) + 1
	c.URL = fmt.Sprintf("https://github.com/%s/%s/runs/%d", Owner, Name, c.ID)
	s.checks = append(s.checks, c)
	return http.StatusCreated, c, nil
}

// tooMany refuses more annotations than GitHub takes in one request.
func tooMany(c *Check) error {
	if len(c.Output.Annotations) > 50 {
		return problem{http.StatusUnprocessableEntity, "Invalid request. No more than 50 items are allowed"}
	}
	return nil
}

// updateCheck adds annotations to those that are there, as GitHub does.
func (s *Server) updateCheck(r *http.Request, update *Check) (int, any, error) {
	if err := tooMany(update); err != nil {
		return 0, nil, err
	}
	c, err := numbered(r, s.checks)
	if err != nil {
		return 0, nil, err
	}
	c.Output.Annotations = append(c.Output.Annotations, update.Output.Annotations...)
	return http.StatusOK, c, nil
}
