package hosts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"muster/gitops"
	"muster/gitops/git/remote"
	"muster/gitops/gitserver"
)

const giteaPassword = "hunter2-hunter2"

// giteaHost is Gitea, over http or its own ssh server.
func giteaHost(name string, overSSH bool) host {
	built, _ := Gitea()
	program := filepath.Join(built, "gitea")
	return host{name: name, needs: files(program), start: func(t *testing.T) server {
		ports := freePorts(t, 2)
		s := &giteaServer{t: t, program: program, dir: t.TempDir(), port: ports[0], ssh: ports[1], overSSH: overSSH}
		put(t, s.ini(), fmt.Sprintf(giteaSettings, s.dir, built, s.port, s.port, s.ssh, s.ssh))
		output(t, s.run("migrate"))
		for _, user := range []string{"alice", "bob", "carol"} {
			args := []string{"admin", "user", "create", "--username", user, "--password", giteaPassword, "--email", user + "@example.com", "--must-change-password=false"}
			if user == "alice" {
				args = append(args, "--admin")
			}
			output(t, s.run(args...))
		}
		s.daemon = startDaemon(t, s.port, func() *exec.Cmd { return s.run("web") })
		s.meet(t)
		return s
	}}
}

var (
	gitea    = giteaHost("Gitea over http", false)
	giteaSSH = giteaHost("Gitea over its own ssh", true)
)

const giteaSettings = `RUN_MODE = prod
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
WORK_PATH = %s
[server]
STATIC_ROOT_PATH = %s
HTTP_ADDR = 127.0.0.1
HTTP_PORT = %d
ROOT_URL = http://127.0.0.1:%d/
START_SSH_SERVER = true
SSH_LISTEN_HOST = 127.0.0.1
SSH_DOMAIN = 127.0.0.1
SSH_PORT = %d
SSH_LISTEN_PORT = %d
BUILTIN_SSH_SERVER_USER = git
OFFLINE_MODE = true
[database]
DB_TYPE = sqlite3
[security]
INSTALL_LOCK = true
SECRET_KEY = not-secret-here
PASSWORD_HASH_ALGO = pbkdf2$1000$50
[service]
DISABLE_REGISTRATION = true
[actions]
ENABLED = false
[log]
MODE = console
LEVEL = Warn
`

type giteaServer struct {
	*daemon
	t            *testing.T
	program, dir string
	port, ssh    int
	overSSH      bool
}

func (s *giteaServer) ini() string { return filepath.Join(s.dir, "app.ini") }

func (s *giteaServer) run(args ...string) *exec.Cmd {
	cmd := exec.Command(s.program, append(args, "--config", s.ini())...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "HOME="+s.dir, "USER=root")
	return cmd
}

func (s *giteaServer) version() string { return GiteaVersion }

// meet makes alice's key, and notes that of the server.
func (s *giteaServer) meet(t *testing.T) {
	t.Helper()
	key := filepath.Join(s.dir, "alice")
	s.call(t, "POST", "/user/keys", map[string]any{"title": "muster", "key": newKey(t, key)}, nil)
	scan := exec.Command("ssh-keyscan", "-p", fmt.Sprint(s.ssh), "127.0.0.1")
	put(t, filepath.Join(s.dir, "known_hosts"), output(t, scan)+"\n")
}

// call asks Gitea's API as alice (docs.gitea.com/api).
func (s *giteaServer) call(t *testing.T, method, path string, body, into any) {
	t.Helper()
	text, err := json.Marshal(body)
	must(t, err)
	request, err := http.NewRequestWithContext(t.Context(), method, fmt.Sprintf("http://127.0.0.1:%d/api/v1%s", s.port, path), bytes.NewReader(text))
	must(t, err)
	request.SetBasicAuth("alice", giteaPassword)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	must(t, err)
	if response.StatusCode >= 300 {
		t.Fatalf("%s %s: %s: %s", method, path, response.Status, said)
	}
	if into != nil {
		must(t, json.Unmarshal(said, into))
	}
}

// config is how one user reaches a repository over http.
func (s *giteaServer) config(user, name string) *gitops.Config {
	return &gitops.Config{
		URL:         fmt.Sprintf("http://127.0.0.1:%d/alice/%s.git", s.port, name),
		AuthorName:  user,
		AuthorEmail: user + "@example.com",
		Credentials: remote.Credentials{Password: remote.StaticPassword(user, giteaPassword)},
	}
}

func (s *giteaServer) repository(t *testing.T) place {
	name := newName()
	at := "/repos/alice/" + name
	s.call(t, "POST", "/user/repos", map[string]any{"name": name, "default_branch": "main"}, nil)
	s.call(t, "PUT", at+"/collaborators/bob", map[string]any{"permission": "read"}, nil)
	s.call(t, "PUT", at+"/collaborators/carol", map[string]any{"permission": "write"}, nil)
	p := place{
		Repository: gitserver.Repository{Dir: filepath.Join(s.dir, "data", "gitea-repositories", "alice", name+".git")},
		config:     *s.config("alice", name),
		reader:     s.config("bob", name),
		url:        fmt.Sprintf("http://alice:%s@127.0.0.1:%d/alice/%s.git", giteaPassword, s.port, name),
		protect: func(t *testing.T) {
			s.call(t, "POST", at+"/branch_protections", map[string]any{"rule_name": "main", "enable_push": false}, nil)
		},
		free: func(t *testing.T) { s.call(t, "DELETE", at+"/branch_protections/main", nil, nil) },
		rename: func(t *testing.T) {
			s.call(t, "PATCH", at, map[string]any{"name": name + "-renamed"}, nil)
		},
		verified: func(t *testing.T, commit string) bool {
			var got struct {
				Commit struct{ Verification struct{ Verified bool } }
			}
			s.call(t, "GET", at+"/git/commits/"+commit, nil, &got)
			return got.Commit.Verification.Verified
		},
	}
	password := filepath.Join(s.dir, "password")
	put(t, password, giteaPassword)
	p.flags = []string{"--git-username", "alice", "--git-password-file", password}
	p.rotates = s.rotatesToken
	ssh := p
	s.throughSSH(&ssh, name)
	p.moved, ssh.moved = append(ssh.flags, "--repo", ssh.url), append(p.flags, "--repo", p.config.URL)
	if s.overSSH {
		p = ssh
	}
	hook := filepath.Join(p.Dir, "hooks", "pre-receive.d", "muster")
	put(t, hook, rules)
	must(t, os.Chmod(hook, 0o700))
	return p
}

// throughSSH lets a repository be reached through Gitea's own ssh server.
func (s *giteaServer) throughSSH(p *place, name string) {
	key, known := filepath.Join(s.dir, "alice"), filepath.Join(s.dir, "known_hosts")
	p.url = fmt.Sprintf("ssh://git@127.0.0.1:%d/alice/%s.git", s.ssh, name)
	p.config.URL, p.config.Credentials = p.url, remote.Credentials{SSHKeyFile: key, SSHKnownHostsFile: known}
	p.environ = []string{"GIT_SSH_COMMAND=ssh -i " + key + " -o UserKnownHostsFile=" + known}
	p.flags = []string{"--ssh-key-file", key, "--ssh-known-hosts-file", known}
	p.rotates = s.rotatesKey
}

// rotatesToken returns an access token of alice's that can be replaced.
func (s *giteaServer) rotatesToken(t *testing.T) credentials {
	file := filepath.Join(t.TempDir(), "token")
	return credentials{
		flags:    []string{"--git-username", "alice", "--git-password-file", file},
		rejected: "the server does not accept the user name and password (401)",
		expire:   func(t *testing.T) { s.call(t, "DELETE", "/users/alice/tokens/muster", nil, nil) },
		renew: func(t *testing.T) {
			var made struct{ SHA1 string }
			s.call(t, "POST", "/users/alice/tokens", map[string]any{"name": "muster", "scopes": []string{"write:repository"}}, &made)
			put(t, file, made.SHA1+"\n")
		},
	}
}

// rotatesKey returns an ssh key of alice's that can be replaced.
func (s *giteaServer) rotatesKey(t *testing.T) credentials {
	file := filepath.Join(t.TempDir(), "key")
	var made struct{ ID int }
	return credentials{
		flags:    []string{"--ssh-key-file", file, "--ssh-known-hosts-file", filepath.Join(s.dir, "known_hosts")},
		rejected: "the server does not accept the ssh key",
		expire:   func(t *testing.T) { s.call(t, "DELETE", fmt.Sprintf("/user/keys/%d", made.ID), nil, nil) },
		renew: func(t *testing.T) {
			s.call(t, "POST", "/user/keys", map[string]any{"title": filepath.Dir(file), "key": newKey(t, file)}, &made)
		},
	}
}

// trust lets Gitea know the key by which alice signs.
func (s *giteaServer) trust(t *testing.T, public string) {
	t.Helper()
	s.call(t, "POST", "/user/gpg_keys", map[string]any{"armored_public_key": strings.TrimSpace(public)}, nil)
}
