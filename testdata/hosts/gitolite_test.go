package hosts

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"muster/gitops"
	"muster/gitops/git/remote"
	"muster/gitops/gitserver"
)

const (
	gitoliteProgram = "/usr/bin/gitolite"
	gitoliteShell   = "/usr/share/gitolite3/gitolite-shell"
	sshd            = "/usr/sbin/sshd"
)

// gitoliteRules let alice write, bob read, and carol write every branch but main.
const gitoliteRules = `repo fleet[0-9]+
    C = alice
    RW+ = alice
    R = bob
    - main = carol
    RW = carol
`

// gitolite is git's own programs behind sshd, with rules for each branch.
var gitolite = host{name: "gitolite", needs: files(gitoliteProgram, gitoliteShell, sshd), start: func(t *testing.T) server {
	home := t.TempDir()
	g := &gitoliteServer{t: t, home: home, port: freePort(t)}
	output(t, g.gitolite("setup", "-a", "alice"))
	put(t, filepath.Join(home, ".gitolite", "conf", "gitolite.conf"), gitoliteRules)
	output(t, g.gitolite("compile"))
	for _, name := range []string{"host", "alice", "bob", "carol"} {
		public := newKey(t, filepath.Join(home, name))
		if name == "host" {
			put(t, filepath.Join(home, "known_hosts"), fmt.Sprintf("[127.0.0.1]:%d %s", g.port, public))
			continue
		}
		g.authorize(t, name, public)
	}
	put(t, filepath.Join(home, "sshd_config"), fmt.Sprintf("ListenAddress 127.0.0.1:%d\nHostKey %s\nAuthorizedKeysFile %s\nPidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nAcceptEnv GIT_PROTOCOL\nMaxStartups 100\n",
		g.port, filepath.Join(home, "host"), g.authorized()))
	if os.Getuid() == 0 {
		must(t, os.MkdirAll("/run/sshd", 0o755)) // as its package's start script does
	}
	g.daemon = startDaemon(t, g.port, func() *exec.Cmd {
		return exec.Command(sshd, "-D", "-e", "-f", filepath.Join(home, "sshd_config"))
	})
	return g
}}

type gitoliteServer struct {
	*daemon
	t    *testing.T
	home string
	port int
}

func (g *gitoliteServer) gitolite(args ...string) *exec.Cmd {
	cmd := exec.Command(gitoliteProgram, args...)
	cmd.Env = append(os.Environ(), "HOME="+g.home)
	return cmd
}

func (g *gitoliteServer) version() string {
	text, err := os.ReadFile("/usr/share/gitolite3/VERSION")
	must(g.t, err)
	return strings.TrimSpace(string(text))
}

// authorized is the file of the keys that may log in.
func (g *gitoliteServer) authorized() string { return filepath.Join(g.home, "authorized_keys") }

// authorize adds a user's key to the keys that sshd accepts. Unlike in gitolite's own line, HOME is set: it would
// be that of the account that runs the test.
func (g *gitoliteServer) authorize(t *testing.T, user, public string) {
	t.Helper()
	before, _ := os.ReadFile(g.authorized()) // absent: it is the first
	put(t, g.authorized(), fmt.Sprintf("%scommand=\"HOME=%s %s %s\",restrict %s", before, g.home, gitoliteShell, user, public))
}

// rotates returns a key of alice's that can be replaced.
func (g *gitoliteServer) rotates(t *testing.T) credentials {
	without, err := os.ReadFile(g.authorized())
	must(t, err)
	key := filepath.Join(t.TempDir(), "key")
	return credentials{
		flags:    []string{"--ssh-key-file", key, "--ssh-known-hosts-file", filepath.Join(g.home, "known_hosts")},
		rejected: "the server does not accept the ssh key",
		expire:   func(t *testing.T) { put(t, g.authorized(), string(without)) },
		renew:    func(t *testing.T) { g.authorize(t, "alice", newKey(t, key)) },
	}
}

// credentials are one user's.
func (g *gitoliteServer) credentials(name string) remote.Credentials {
	return remote.Credentials{SSHKeyFile: filepath.Join(g.home, name), SSHKnownHostsFile: filepath.Join(g.home, "known_hosts")}
}

func (g *gitoliteServer) repository(t *testing.T) place {
	me, err := user.Current()
	must(t, err)
	name := newName()
	url := fmt.Sprintf("ssh://%s@127.0.0.1:%d/%s", me.Username, g.port, name)
	known := filepath.Join(g.home, "known_hosts")
	config := func(user string) *gitops.Config {
		return &gitops.Config{URL: url, Credentials: g.credentials(user)}
	}
	p := place{
		Repository: gitserver.Repository{Dir: filepath.Join(g.home, "repositories", name+".git")},
		config:     *config("alice"), reader: config("bob"), kept: config("carol"),
		url:     url,
		environ: []string{"GIT_SSH_COMMAND=ssh -i " + filepath.Join(g.home, "alice") + " -o UserKnownHostsFile=" + known},
		flags:   []string{"--ssh-key-file", filepath.Join(g.home, "alice"), "--ssh-known-hosts-file", known},
		rotates: g.rotates,
	}
	make := exec.Command("git", "ls-remote", url) // who may create one does so by the first look
	make.Env = append(os.Environ(), p.environ...)
	output(t, make)
	_, err = p.Git("symbolic-ref", "HEAD", "refs/heads/main")
	must(t, err)
	hook := filepath.Join(p.Dir, "hooks", "pre-receive") // gitolite's own is update
	put(t, hook, rules)
	must(t, os.Chmod(hook, 0o700))
	return p
}
