package git_test

import (
	"net/http"
	"strings"
	"testing"

	"muster/gitops/git"
)

// TestRefusedRedirectsNameTheirTarget asserts that the error of a redirect that is not followed names its target,
// without a token.
func TestRefusedRedirectsNameTheirTarget(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, request := range []string{"/git-upload-pack", "/git-receive-pack", "loop"} {
			on := false
			f := intercept(t, func(w http.ResponseWriter, r *http.Request) bool {
				if !on || request != "loop" && !strings.HasSuffix(r.RequestURI, request) {
					return false
				}
				to := "http://elsewhere.example:8080/new/fleet.git" + strings.TrimPrefix(request, "loop") + "?token=hunter2"
				if request == "loop" {
					to = r.URL.String()
				}
				w.Header().Set("Location", to)
				w.WriteHeader(status)
				return true
			})
			b := open(t, git.Config{URL: f.URL()})
			on = !strings.Contains(request, "receive")
			head, err := b.Head(t.Context())
			if err == nil {
				on = true
				_, err = b.Push(t.Context(), head, one("a"))
			}
			want := "elsewhere.example:8080/new/fleet.git"
			if request == "loop" {
				want = "/fleet.git"
			}
			if err == nil || !strings.Contains(err.Error(), "redirect") || !strings.Contains(err.Error(), want+": ") || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%d %s: %v, want an error that names %s", status, request, err, want)
			}
		}
	}
}
