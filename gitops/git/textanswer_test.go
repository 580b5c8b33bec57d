package git_test

import (
	"net/http"
	"strings"
	"testing"

	"muster/gitops/git"
	"muster/gitops/gitserver"
)

// TestTextThatBeginsLikeGit asserts that the error names a successful response to a POST that is text, also if the
// text begins with four hexadecimal digits, like a line of git's protocol.
func TestTextThatBeginsLikeGit(t *testing.T) {
	t.Parallel()
	for _, words := range []string{"2026-11-27 maintenance until noon", "Bad", "dead host", "face the login page", "<html>"} {
		for _, request := range []string{"/git-upload-pack", "/git-receive-pack"} {
			on := false
			answer := gitserver.Response{Status: 203, Type: "text/plain", Words: words}
			f := intercept(t, func(w http.ResponseWriter, r *http.Request) bool {
				if !on || !strings.HasSuffix(r.RequestURI, request) {
					return false
				}
				answer.Write(w)
				return true
			})
			b := open(t, git.Config{URL: f.URL()})
			on = !strings.Contains(request, "receive")
			head, err := b.Head(t.Context())
			if err == nil {
				on = true
				_, err = b.Push(t.Context(), head, one("a"))
			}
			if err == nil || !strings.Contains(err.Error(), "instead of git's protocol") {
				t.Errorf("%q %s: %v", words, request, err)
			}
		}
	}
}
