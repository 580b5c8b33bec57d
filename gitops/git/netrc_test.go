package git_test

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"muster/gitops/git"
	"muster/gitops/git/remote"
	"muster/gitops/gitserver"
)

// asking is a host that wants a password, and remembers which it was given.
type asking struct {
	mu    sync.Mutex
	given []string
}

func (a *asking) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, password, ok := r.BasicAuth(); ok {
			a.mu.Lock()
			a.given = append(a.given, name+" "+password)
			a.mu.Unlock()
		}
		next.ServeHTTP(w, r)
	})
}

// was returns what was given since the last call, without repetitions.
func (a *asking) was() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var kept []string
	for _, g := range a.given {
		if len(kept) == 0 || kept[len(kept)-1] != g {
			kept = append(kept, g)
		}
	}
	a.given = nil
	return strings.Join(kept, ", ")
}

// TestNetrc gives what git itself gives, which leaves the file to curl.
func TestNetrc(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, user string }{
		"lines":             {"machine 127.0.0.1\n  login ada\n  password hunter2\n", ""},
		"one line":          {"machine 127.0.0.1 login ada password hunter2", ""},
		"password first":    {"machine 127.0.0.1 password hunter2 login ada\nmachine other.example login eve password x\n", ""},
		"the second":        {"machine other.example login eve password x\nmachine 127.0.0.1 login ada password hunter2\n", ""},
		"the first of two":  {"machine 127.0.0.1 login ada password hunter2\nmachine 127.0.0.1 login eve password x\n", ""},
		"a user":            {"machine 127.0.0.1 login eve password x\nmachine 127.0.0.1 login ada password hunter2\n", "ada"},
		"a user at the end": {"machine 127.0.0.1 login eve password x\nmachine 127.0.0.1 login ada password hunter2 account y\nmachine other.example login ada password z", "ada"},
		"default":           {"machine other.example login eve password x\ndefault login ada password hunter2\n", ""},
		"comment":           {"# machine 127.0.0.1 login eve password x\nmachine 127.0.0.1 login ada password hunter2 # yes\n", ""},
		"quotes":            {"machine 127.0.0.1 login ada password \"hunter 2 \\\"x\\\"\"\n", ""},
		"macro":             {"macdef init\nmachine 127.0.0.1 login eve password x\n\nmachine 127.0.0.1 login ada password hunter2\n", ""},
		"another host":      {"machine other.example login ada password hunter2\n", ""},
		"another user":      {"machine 127.0.0.1 login eve password x\n", "ada"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := &asking{}
			f := gitserver.NewServer(t, gitserver.Options{Username: "ada", Password: "hunter3", Wrap: host.wrap})
			home := t.TempDir()
			file := filepath.Join(home, ".netrc")
			if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			url := f.URL()
			if test.user != "" {
				url = strings.Replace(url, "http://", "http://"+test.user+"@", 1)
			}
			gits := exec.Command("git", "ls-remote", url)
			gits.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS="}
			_ = gits.Run() // it is refused
			want := host.was()
			_, err := open(t, git.Config{URL: url, Credentials: remote.Credentials{NetrcFile: file}}).Head(t.Context())
			if err == nil {
				t.Error("the server takes it")
			}
			if name == "another user" {
				want = "" // curl gave another user's password until 8.11.1 (CVE-2024-11053)
			}
			// A user in the address is tried alone at first: some hosts take a token there.
			if got := strings.TrimPrefix(strings.TrimPrefix(host.was(), test.user+" "), ", "); got != want {
				t.Errorf("gives %q, git gives %q", got, want)
			}
			if want == "" != strings.HasPrefix(name, "another") {
				t.Errorf("git gives %q", want)
			}
		})
	}
}

// TestNetrcAndHelper: the helper is asked where the server does not take what the file
// has, and the file is read again when it no longer does.
func TestNetrcAndHelper(t *testing.T) {
	t.Parallel()
	host := &asking{}
	f := gitserver.NewServer(t, gitserver.Options{Username: "ada", Password: "hunter2", Wrap: host.wrap})
	seed(t, f.Repository, files()...)
	file := filepath.Join(t.TempDir(), "netrc")
	b := open(t, git.Config{URL: f.URL(), Credentials: remote.Credentials{NetrcFile: file, Helper: func(ctx context.Context, action string) *exec.Cmd {
		return exec.CommandContext(ctx, "sh", "-c", "[ "+action+" != fill ] || printf 'username=ada\\npassword=helped\\n'")
	}}})
	for _, step := range []struct{ file, server, want string }{
		{"machine 127.0.0.1 login ada password hunter2", "hunter2", "ada hunter2"},
		{"machine 127.0.0.1 login ada password hunter2", "helped", "ada hunter2, ada helped"},
		{"machine 127.0.0.1 login ada password hunter3", "hunter3", "ada helped, ada hunter3"},
	} {
		if err := os.WriteFile(file, []byte(step.file), 0o600); err != nil {
			t.Fatal(err)
		}
		f.SetPassword(step.server)
		headOf(t, b)
		if got := host.was(); got != step.want {
			t.Errorf("gives %q, want %q", got, step.want)
		}
	}
}
