package git_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"muster/gitops/git"
	"muster/gitops/git/remote"
	"muster/gitops/gitserver"
)

// TestMissingRepository: what hosts print over ssh for a repository that does not exist, or that the
// key may not read.
func TestMissingRepository(t *testing.T) {
	t.Parallel()
	for host, message := range map[string]string{
		"Gitea":           "Gitea: Cannot find repository: fleet/none",
		"gitolite":        "FATAL: R any none robot DENIED by fallthru\n(or you mis-spelled the reponame)",
		"Bitbucket Cloud": "conq: repository access denied.",
	} {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			ssh := func(ctx context.Context, _ ...string) *exec.Cmd {
				return exec.CommandContext(ctx, "sh", "-c", `printf '%s\n' "$1" >&2; exit 1`, "ssh", message)
			}
			_, err := open(t, git.Config{URL: "ssh://git@git.example.com/fleet/none", Credentials: remote.Credentials{SSHProgram: ssh}}).Head(t.Context())
			want := "repository not found, or these credentials have no access: " + strings.ReplaceAll(message, "\n", "; ")
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Tip: %v, want %q", err, want)
			}
		})
	}
}

// TestPastFileOfJGit: a host that serves only heads refuses a past commit in JGit's words; the file
// comes with a deeper fetch of the head.
func TestPastFileOfJGit(t *testing.T) {
	t.Parallel()
	r := gitserver.NewRepository(t)
	old := seed(t, r, write("a.txt", "old"))
	head := seed(t, r, write("a.txt", "new"))
	refused := 0
	config := serveStrict(t, r, gitserver.Strict{Hides: gitserver.Dulwich().Hides, Upload: func(w http.ResponseWriter, q *http.Request, next http.Handler) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			t.Error(err)
		}
		q.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte("want "+head)) {
			next.ServeHTTP(w, q)
			return
		}
		refused++
		w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		line := "ERR want " + old + " not valid"
		fmt.Fprintf(w, "%04x%s", len(line)+4, line)
	}})
	content, err := open(t, config).File(t.Context(), old, "a.txt")
	if err != nil || string(content) != "old" {
		t.Errorf("File: %q, %v", content, err)
	}
	if refused == 0 {
		t.Error("the host refused nothing")
	}
}

// TestMessageInJSON: of a host's JSON, an error contains the message alone.
func TestMessageInJSON(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"GitLab":                    `{"error":"out of order"}`,
		"Bitbucket Cloud":           `{"type":"error","error":{"message":"out of order","id":"1"}}`,
		"Bitbucket Data Center":     `{"errors":[{"context":null,"message":"out of order"}]}`,
		"Gitea, with other errors":  `{"message":"out of order","errors":["one"],"error":7}`,
		"another case":              `{"Message":"out of order"}`,
		"the first that is no text": `{"message":{"base":["one"]},"errors":[],"error":"out of order"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := &message{Response: gitserver.Response{Status: http.StatusConflict, Type: "application/json", Words: body}, to: "/git-upload-pack"}
			f := gitserver.NewServer(t, gitserver.Options{Wrap: host.wrap})
			seed(t, f.Repository, files()...)
			_, err := open(t, git.Config{URL: f.URL()}).Head(t.Context())
			if err == nil || !strings.HasSuffix(err.Error(), "409 Conflict: out of order") {
				t.Errorf("Tip: %v", err)
			}
		})
	}
}
