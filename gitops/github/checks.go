package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/go-github/v50/github"
)

// ErrNoChecks is returned if the token may not write checks: only Apps and workflows with "checks:
// write" may.
var ErrNoChecks = errors.New("the token may not write checks, which only a GitHub App or a workflow with \"checks: write\" may")

// Annotation is a message at a line of a file.
type Annotation struct {
	Path string
	// Line is the line from 1; zero means the whole file.
	Line int
	// Failure reports whether it is a failure, and not a warning.
	Failure bool
	Text    string
}

// Check is a check of a commit.
type Check struct {
	// Name is the name of the check, and Title its result in a few words.
	Name, Title string
	// Summary is Markdown.
	Summary     string
	Failed      bool
	Annotations []Annotation
}

// maxAnnotations is the maximum in one request (docs.github.com/rest/checks/runs:
// "limits the number of annotations to a maximum of 50 per API request").
const maxAnnotations = 50

// Check writes a check of a commit, and returns the URL of its page. The error is [ErrNoChecks] if the
// token may not.
func (p *Pulls) Check(ctx context.Context, commit string, c Check) (url string, err error) {
	conclusion := "success"
	if c.Failed {
		conclusion = "failure"
	}
	summary := c.Summary
	if len(summary) > longestComment {
		summary = strings.ToValidUTF8(summary[:longestComment], "")
	}
	output := func(from int) *github.CheckRunOutput {
		o := &github.CheckRunOutput{Title: &c.Title, Summary: &summary}
		for _, a := range c.Annotations[from:min(from+maxAnnotations, len(c.Annotations))] {
			level, line := "warning", max(1, a.Line)
			if a.Failure {
				level = "failure"
			}
			o.Annotations = append(o.Annotations, &github.CheckRunAnnotation{Path: &a.Path, StartLine: &line, EndLine: &line, AnnotationLevel: &level, Message: &a.Text})
		}
		return o
	}
	status := "completed"
	made, err := do(ctx, p, func() (*github.CheckRun, *github.Response, error) {
		return p.client.Checks.CreateCheckRun(ctx, p.Owner, p.Name, github.CreateCheckRunOptions{
			Name: c.Name, HeadSHA: commit, Status: &status, Conclusion: &conclusion, Output: output(0),
		})
	})
	var said *github.ErrorResponse
	if errors.As(err, &said) && (said.Response.StatusCode == http.StatusForbidden || said.Response.StatusCode == http.StatusNotFound) {
		return "", fmt.Errorf("%w (%w)", ErrNoChecks, err)
	}
	for from := maxAnnotations; err == nil && from < len(c.Annotations); from += maxAnnotations {
		_, err = do(ctx, p, func() (*github.CheckRun, *github.Response, error) {
			options := github.UpdateCheckRunOptions{Name: c.Name, Output: output(from)}
			return p.client.Checks.UpdateCheckRun(ctx, p.Owner, p.Name, made.GetID(), options)
		})
	}
	if err != nil {
		return "", fmt.Errorf("writing the check %q of commit %.12s: %w", c.Name, commit, err)
	}
	return made.GetHTMLURL(), nil
}
