package git_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"muster/gitops/branch"
	"muster/gitops/git"
	"muster/gitops/git/remote"
	"muster/gitops/gitserver"
)

// lsRemote runs git ls-remote, and returns whether it succeeds.
func lsRemote(t *testing.T, address string, environ ...string) bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "ls-remote", "--", address)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0", "GIT_SSH_VARIANT=ssh")
	cmd.Env = append(cmd.Env, environ...)
	return cmd.Run() == nil
}

// TestHTTPAddressesLikeGit asserts that the first request goes to the URL that git's own goes to, and
// that an address by which git reads a repository can be read and written.
func TestHTTPAddressesLikeGit(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var first string
	f := newServer(t, gitserver.Options{Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			if first == "" {
				first = r.Method + " " + r.URL.Path + "?" + r.URL.RawQuery
				if !strings.ContainsAny(r.URL.Path, "\"|[]{}^\\`é") { // which curl escapes in other forms than net/url
					first = r.Method + " " + r.RequestURI
				}
			}
			mu.Unlock()
			next.ServeHTTP(w, r)
		})
	}})
	_, err := gitserver.Init(filepath.Join(filepath.Dir(f.Dir), "a b%c?d.git"))
	must(t, err)
	took := func() string {
		mu.Lock()
		defer mu.Unlock()
		defer func() { first = "" }()
		return first
	}
	readable := 0
	for _, address := range []string{
		"/fleet.git", "/fleet.git/", "/fleet.git//", "//fleet.git", "/./fleet.git", "/x/../fleet.git", "/fleet.git/.", "/fleet.git/x/..",
		"/../fleet.git", "/fleet%2Egit", "/%66leet.git/", "/a%20b%25c%3Fd.git", "/a%20b%25c%3Fd.git/", "/x/%2e%2e/fleet.git",
		"/a\"b|c", "/a[b]{c}", "/a^b\\c`d", "/é", "/a%C3%A9", "/fleet.git#a%zz", "/fleet.git?a=%zz&b=%",
		"/fleet.git?token=secret", "/fleet.git?a=1&b=/x/../y", "/fleet.git#main", "/", "/x%2Ffleet.git", "/fleet.git/info/refs", "/a+b/~c/'d",
	} {
		for _, place := range []string{f.Server.URL, strings.Replace(f.Server.URL, "//", "//robot@", 1), strings.Replace(f.Server.URL, "//127.0.0.1", "//LOCALHOST", 1)} {
			ok := lsRemote(t, place+address)
			want := took()
			repository := open(t, git.Config{URL: place + address})
			head, err := repository.Head(t.Context())
			if got := took(); got != want {
				t.Errorf("%s: the first request is %s, want %s as git sends", place+address, got, want)
			}
			if !ok || strings.Contains(address, "a%20b") { // the latter is empty
				continue
			}
			readable++
			must(t, err)
			must(t, push(t, repository, &head, strings.Repeat("x", readable)))
			took()
		}
	}
	if readable < 20 {
		t.Errorf("git reads only %d of the addresses", readable)
	}
}

// TestLoginsLikeGit asserts that the server gets the user and the password of an address that it gets from
// git, whatever characters they have.
func TestLoginsLikeGit(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var last string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, given := r.BasicAuth()
		if !given {
			w.Header().Set("WWW-Authenticate", `Basic realm="fleet"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		last = r.URL.Path + " " + user + ":" + password
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(s.Close)
	took := func() string {
		mu.Lock()
		defer mu.Unlock()
		defer func() { last = "" }()
		return last
	}
	for _, login := range []string{
		"robot:s3cret", "robot:s3%cret", "robot:%", "robot:a%2", "robot:a^b", "robot:a\"b<c>", "robot:a|b[c]{d}`e\\f", "robot:é", "robot:a:b", "robot:a%20b%25",
		"robot%40corp:s3cret", "rob%ot:x", "r^b:x", "robot:%zz%41%", "robot:a%2Fb%3Fc%23d",
	} {
		address := strings.Replace(s.URL, "//", "//"+login+"@", 1) + "/fleet.git"
		_ = lsRemote(t, address)
		want := took()
		if want == "" {
			t.Fatalf("%s: git sends no login", login)
		}
		_, err := open(t, git.Config{URL: address}).Head(t.Context())
		if got := took(); err == nil || got != want {
			t.Errorf("%s: the server gets %s, want %s as from git (%v)", login, got, want, err)
		}
	}
}

// TestStrayPercentSigns asserts that a repository whose name has percent signs and other special characters
// is read and written. A percent sign that begins no escape is part of the name: git sends it as it is, to
// servers that treat it like that.
func TestStrayPercentSigns(t *testing.T) {
	t.Parallel()
	for name, addresses := range map[string][]string{"100%.git": {"/100%.git", "/100%25.git"}, "a%zz%4": {"/a%zz%4", "/a%25zz%4/"}, "%%.git": {"/%%.git", "/%%25.git/"}, "a b?c#d": {"/a%20b%3Fc%23d"}} {
		f := newServer(t, gitserver.Options{})
		must(t, os.Rename(f.Dir, filepath.Join(filepath.Dir(f.Dir), name)))
		for i, address := range addresses {
			b := open(t, git.Config{URL: f.Server.URL + address})
			head, err := b.Head(t.Context())
			if err == nil {
				err = push(t, b, &head, strings.Repeat("x", i+1))
			}
			if err != nil {
				t.Errorf("%s by %s: %v", name, address, err)
			}
		}
	}
}

// daemon serves the repositories in a directory by the git protocol, and returns the address.
func daemon(t *testing.T, dir string) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var running sync.WaitGroup
	t.Cleanup(func() { listener.Close(); running.Wait() })
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				socket, err := conn.(*net.TCPConn).File()
				if err != nil {
					return
				}
				defer socket.Close()
				cmd := exec.Command("git", "daemon", "--inetd", "--export-all", "--enable=receive-pack", "--user-path", "--base-path="+dir)
				cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
				cmd.Stdin, cmd.Stdout = socket, socket
				_ = cmd.Run() // what goes wrong shows at the client
			})
		}
	})
	return listener.Addr().String()
}

// TestGitProtocolLikeGit asserts that a repository is read and written by the addresses of the git
// protocol by which git reads it, and its past too.
func TestGitProtocolLikeGit(t *testing.T) {
	t.Parallel()
	f := newServer(t, gitserver.Options{})
	_, err := gitserver.Init(filepath.Join(filepath.Dir(f.Dir), "a b%c.git"))
	must(t, err)
	at := daemon(t, filepath.Dir(f.Dir))
	_, port, err := net.SplitHostPort(at)
	must(t, err)
	readable := 0
	for _, address := range []string{
		"git://" + at + "/fleet.git", "git://" + at + "/fleet.git/", "git://" + at + "/fleet", "git://" + at + "//fleet.git", "git://" + at + "/a%20b%25c.git", "git://" + at + "/a b%c.git",
		"git://localhost:" + port + "/fleet.git", "git://[127.0.0.1]:" + port + "/fleet.git",
		"git://" + at + "/x/../fleet.git", "git://" + at + "/./fleet.git", "git://" + at + "/other", "git://" + at + "/~nobody/fleet.git", "git://" + at + "/fleet.git?x", "git://robot@" + at + "/fleet.git",
	} {
		ok := lsRemote(t, address)
		b, err := git.New(usual(git.Config{URL: address}))
		var head branch.Head
		if err == nil {
			head, err = b.Head(t.Context())
		}
		if ok != (err == nil || errors.Is(err, remote.ErrEmpty)) {
			t.Errorf("%s: git reads it: %t; %v", address, ok, err)
		}
		if err != nil {
			continue
		}
		readable++
		must(t, push(t, b, &head, strings.Repeat("x", readable)))
		commits := 0
		for _, err := range b.Commits(t.Context(), "", branch.Limit{}) {
			must(t, err)
			commits++
		}
		if commits != 1+readable {
			t.Errorf("%s: the log has %d commits, want %d", address, commits, 1+readable)
		}
	}
	if readable < 5 {
		t.Errorf("git reads only %d of the addresses", readable)
	}
}

// TestSSHAddressesLikeGit asserts that ssh gets the arguments that git gives it.
func TestSSHAddressesLikeGit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program, out := filepath.Join(dir, "ssh"), filepath.Join(dir, "out")
	must(t, os.WriteFile(program, []byte("#!/bin/sh\nprintf '%s\\n' \"$@\" >"+out+"\nexit 1\n"), 0o700))
	for _, address := range []string{
		"ssh://example.com/fleet", "ssh://git@example.com:22/fleet.git/", "ssh://example.com:/fleet", "ssh://example.com:2222//srv/fleet", "ssh://example.com/~git/fleet",
		"ssh://example.com/%7Egit/a%20b%25c", "ssh://u%40corp@[::1]:2222/fleet", "ssh://[::1]/fleet", "ssh://git@[example.com:2222]/fleet", "ssh://example.com/a?b#c%zz",
		"git+ssh://git@example.com/fleet", "ssh+git://git@example.com/fleet", "ssh://example.com/../x/./fleet",
		"example.com:fleet", "git@example.com:srv/fleet.git", "git@example.com:/~git/fleet", "git@example.com:~git/fleet", "git@example.com:/srv/fleet",
		"example.com:22:fleet", "[git@example.com:2222]:fleet", "[::1]:fleet", "git@[::1]:fleet", "git@[::1]:2222/fleet", "[example.com]:fleet",
		"a@b@example.com:fleet", "git@example.com:it's a fleet!", "git@example.com:a%20b", "git@example.com:a:b/c",
	} {
		_ = lsRemote(t, address, "GIT_SSH="+program)
		text, err := os.ReadFile(out)
		must(t, err)
		want := slices.DeleteFunc(strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), func(arg string) bool {
			return arg == "-o" || arg == "SendEnv=GIT_PROTOCOL"
		})
		var got []string
		run := func(ctx context.Context, args ...string) *exec.Cmd {
			got = args
			return exec.CommandContext(ctx, "false")
		}
		_, err = open(t, git.Config{URL: address, Credentials: remote.Credentials{SSHProgram: run}}).Head(t.Context())
		if err == nil || !slices.Equal(got, want) {
			t.Errorf("%s: ssh gets %q, want %q as from git (%v)", address, got, want, err)
		}
	}
}

// TestLocalAddressesLikeGit asserts that a local repository is read by the addresses by which git
// reads it.
func TestLocalAddressesLikeGit(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a b%c:d")
	must(t, os.Mkdir(dir, 0o700))
	r, err := gitserver.Init(filepath.Join(dir, "fleet.git"))
	must(t, err)
	seed(t, r, files()...)
	escaped := "file://" + strings.NewReplacer("%", "%25", " ", "%20").Replace(r.Dir)
	for _, address := range []string{
		r.Dir, r.Dir + "/", r.Dir + "//", dir + "/x/../fleet.git", dir + "/./fleet", dir + "/fleet", escaped, escaped + "/",
		"file://localhost" + strings.TrimPrefix(escaped, "file://"), "file://" + strings.Replace(r.Dir, "%", "%25", 1),
	} {
		if lsRemote(t, address) != !strings.Contains(address, "/x/") {
			t.Fatalf("git and %s", address)
		}
		head := headOf(t, open(t, git.Config{URL: address}))
		wantHead(t, r, head.Commit)
	}
}

// TestAddressesThatGitRefuses: programs would take a part of them for an option or a command, or for
// another line of their input. Errors do not quote them.
func TestAddressesThatGitRefuses(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"ext::sh -c touch% /tmp/x", "fd::17", "ssh://-oProxyCommand=hunter2/x", "-oProxyCommand=hunter2:x", "ssh://-o@hunter2/x", "example.com:-hunter2",
		"ssh://hunter2", "ssh:///hunter2", "file://hunter2", "http://:80/hunter2", "https://example.com", "rsync://hunter2/x", "ssh://example.com:99999/hunter2",
		"https://example.com/a%0ahost=hunter2", "https://a%0ab:hunter2@example.com/x", "ssh://example.com/a%0Dhunter2", "file:///a%00hunter2", "example.com:",
	} {
		_, err := git.New(usual(git.Config{URL: address, Credentials: remote.Credentials{SSHProgram: func(ctx context.Context, _ ...string) *exec.Cmd { return exec.CommandContext(ctx, "false") }}}))
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("New(%q): %v", address, err)
		}
	}
}

// TestResponsesThatAreNotGit asserts that a successful response of another kind is named as what it is, at
// each of the requests of a tick.
func TestResponsesThatAreNotGit(t *testing.T) {
	t.Parallel()
	const page = "<!DOCTYPE html><html><head><title>Sign in</title></head></html>"
	const advertisement, dumb = "application/x-git-upload-pack-advertisement", "0123456789012345678901234567890123456789\trefs/heads/main\n"
	for name, c := range map[string]struct {
		answer gitserver.Response
		want   string
	}{
		"page":                    {gitserver.Response{Status: 200, Type: "text/html; charset=utf-8", Words: page}, "a web page (Sign in)"},
		"transformed page":        {gitserver.Response{Status: 203, Type: "TEXT/HTML", Words: page}, "a web page (Sign in)"},
		"partial page":            {gitserver.Response{Status: 206, Type: "text/html", Words: page}, "a web page (Sign in)"},
		"accepted page":           {gitserver.Response{Status: 202, Type: "text/html", Words: page}, "a web page (Sign in)"},
		"page as git":             {gitserver.Response{Status: 200, Type: advertisement, Words: page}, "a web page (Sign in)"},
		"page as text":            {gitserver.Response{Status: 203, Type: "text/plain", Words: page}, "a web page (Sign in)"},
		"no content":              {gitserver.Response{Status: 204}, "an empty response (204 No Content)"},
		"reset":                   {gitserver.Response{Status: 205}, "an empty response (205 Reset Content)"},
		"empty":                   {gitserver.Response{Status: 200, Type: "text/html"}, "an empty response (200 OK)"},
		"empty as git":            {gitserver.Response{Status: 200, Type: advertisement}, "an empty response (200 OK)"},
		"json":                    {gitserver.Response{Status: 200, Type: "application/json", Words: `{"message": "log in first"}`}, "JSON (log in first)"},
		"text":                    {gitserver.Response{Status: 203, Words: "blocked by policy"}, `content of the type "text/plain" (blocked by policy)`},
		"files of the repository": {gitserver.Response{Status: 200, Words: dumb}, "the files of a repository"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, request := range []string{"service=git-upload-pack", "/git-upload-pack", "service=git-receive-pack", "/git-receive-pack"} {
				if strings.HasPrefix(c.answer.Words, dumb) && !strings.HasPrefix(request, "service") {
					continue // these are requests of the smart protocol alone
				}
				on := false
				f := intercept(t, func(w http.ResponseWriter, r *http.Request) bool {
					if !on || !strings.HasSuffix(r.RequestURI, request) {
						return false
					}
					c.answer.Write(w)
					return true
				})
				b := open(t, git.Config{URL: f.URL()})
				on = !strings.Contains(request, "receive")
				head, err := b.Head(t.Context())
				if err == nil {
					on = true
					_, err = b.Push(t.Context(), head, one("a"))
				}
				wantError(t, err, "the host answered with "+c.want+" instead of git's protocol: ")
			}
		})
	}
}

// TestRedirects asserts that a read follows redirects on the host, and that no request and no credential
// goes to another host or port.
func TestRedirects(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the other host gets %s %s, %q", r.Method, r.URL, r.Header)
	}))
	t.Cleanup(other.Close)
	here := ""
	f := newServer(t, gitserver.Options{Username: "robot", Password: "s3cret", Wrap: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			to, rest := "", ""
			switch dir, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/"); dir {
			case "moved":
				to, rest = here, path
			case "twice":
				to, rest = here, "moved/"+path
			case "other":
				to, rest = other.URL, path
			case "name":
				to, rest = strings.Replace(here, "127.0.0.1", "localhost", 1), path
			case "around":
				to, rest = here, "other/"+path
			case "secure":
				to, rest = strings.Replace(here, "http:", "https:", 1), path
			case "loop":
				to, rest = here, "loop/"+path
			case "login":
				to, rest = other.URL, "login?token=s3cret&to="
			case "post":
				if r.Method == http.MethodPost {
					to, rest = here, path
					break
				}
				r.URL.Path = "/" + path
				next.ServeHTTP(w, r)
				return
			default:
				next.ServeHTTP(w, r)
				return
			}
			http.Redirect(w, r, to+"/"+rest+"?"+r.URL.RawQuery, []int{301, 302, 303, 307, 308}[len(rest)%5])
		})
	}})
	here = f.Server.URL
	credentials := remote.Credentials{Password: remote.StaticPassword("robot", "s3cret")}
	for dir, want := range map[string]string{
		"moved": "", "twice": "", "moved/moved/twice": "",
		"other":  "the address redirects to " + other.URL + "/fleet.git, and redirects to another host or port are not followed: use that address",
		"name":   "redirects to another host or port are not followed",
		"around": "redirects to another host or port are not followed",
		"secure": "redirects to another host or port are not followed",
		"login":  "the address redirects to " + other.URL + "/login, and redirects",
		"loop":   "a redirect that is not followed",
		"post":   "a redirect that is not followed",
	} {
		b := open(t, git.Config{URL: here + "/" + dir + "/fleet.git", Credentials: credentials})
		head, err := b.Head(t.Context())
		if want != "" {
			wantError(t, err, want)
			continue
		}
		must(t, err)
		must(t, push(t, b, &head, strings.ReplaceAll(dir, "/", "-")))
	}
}
