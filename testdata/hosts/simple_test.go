package hosts

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"muster/gitops"
	"muster/gitops/gitserver"
)

// plainGit is git's own server, with which the others are compared.
var plainGit = host{name: "git http-backend", needs: files(), start: func(t *testing.T) server {
	dir := t.TempDir()
	s, err := gitserver.Serve(dir, gitserver.Options{})
	must(t, err)
	t.Cleanup(s.Close)
	return &backend{t: t, dir: dir, server: s}
}}

type backend struct {
	t      *testing.T
	dir    string
	server *gitserver.Server
}

func (b *backend) version() string {
	return strings.TrimPrefix(output(b.t, exec.Command("git", "--version")), "git version ")
}

func (b *backend) repository(t *testing.T) place {
	p := bare(t, b.dir, b.server.URL)
	put(t, filepath.Join(p.Dir, "hooks", "pre-receive"), rules)
	must(t, os.Chmod(filepath.Join(p.Dir, "hooks", "pre-receive"), 0o700))
	return p
}

// restart lets the connections break: the server is this process.
func (b *backend) restart(*testing.T) { b.server.CloseConnections() }

// bare is a repository below a directory that is served at an address, to everybody.
func bare(t *testing.T, dir, url string) place {
	t.Helper()
	name := newName() + ".git"
	r, err := gitserver.Init(filepath.Join(dir, name))
	must(t, err)
	return place{Repository: r, config: gitops.Config{URL: url + "/" + name}, url: url + "/" + name}
}

// dulwich is a git server in Python.
var dulwich = host{
	name: "Dulwich", hidesLocks: true,
	needs: files("/usr/lib/python3/dist-packages/dulwich", "/usr/lib/python3/dist-packages/waitress"),
	start: func(t *testing.T) server {
		script, err := filepath.Abs("serve.py")
		must(t, err)
		return startSimple(t, "/usr/bin/python3", "-W", "ignore", script)
	},
}

// classes are what JGit's servlet in Jetty is made of.
var classes = []string{"org.eclipse.jgit", "org.eclipse.jgit.http.server", "jetty9-server", "jetty9-servlet", "jetty9-http", "jetty9-io", "jetty9-util", "jetty9-security", "servlet-api", "slf4j-api", "slf4j-nop"}

func jars() []string {
	var paths []string
	for _, class := range classes {
		paths = append(paths, "/usr/share/java/"+class+".jar")
	}
	return paths
}

// jgit is the git of Gerrit, and of others in Java.
var jgit = host{name: "JGit", headFirst: true, needs: files(append(jars(), "/usr/bin/javac")...), start: func(t *testing.T) server {
	made, with := t.TempDir(), strings.Join(jars(), ":")
	output(t, exec.Command("/usr/bin/javac", "-cp", with, "-d", made, "Server.java"))
	return startSimple(t, "/usr/bin/java", "-Xmx256m", "-cp", made+":"+with, "JGitServer")
}}

// simple is a program that serves the repositories below a directory to everybody.
type simple struct {
	*daemon
	dir string
}

func startSimple(t *testing.T, program string, args ...string) *simple {
	t.Helper()
	s := &simple{dir: t.TempDir()}
	port := freePort(t)
	s.daemon = startDaemon(t, port, func() *exec.Cmd {
		return exec.Command(program, append(args, s.dir, strconv.Itoa(port))...)
	})
	return s
}

// version is in the first line that it prints.
func (s *simple) version() string {
	line, _, _ := strings.Cut(s.words(), "\n")
	_, version, _ := strings.Cut(line, " ")
	return version
}

func (s *simple) repository(t *testing.T) place {
	return bare(t, s.dir, fmt.Sprintf("http://127.0.0.1:%d", s.port))
}
