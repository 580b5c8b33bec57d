package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/cmd/invocation"
	"muster/gitops/gitserver"
	"muster/gitops/unraced"
)

// hostileClone is a clone of a fleet repository that contains a committed bare repository
// whose configuration names programs. Each program would write the file marker.
type hostileClone struct {
	clone, inner, marker string
	environ              []string // of a person without settings of git's, and with settings
	explicit             []string // of one whose git uses no bare repository that is not named
}

func newHostileClone(t *testing.T) hostileClone {
	t.Helper()
	w, p, _, stderr := fleetProgram(t, "run", "--once")
	w.addBuild(3)
	if code := p.run(t.Context()); code != invocation.ExitOK {
		t.Fatalf("run --once: exit code %d, %s", code, stderr)
	}
	dir := t.TempDir()
	h := hostileClone{clone: filepath.Join(dir, "clone"), marker: filepath.Join(dir, "ran")}
	h.inner = filepath.Join(h.clone, "overlays", "inner")
	run := func(input string, args ...string) string {
		t.Helper()
		out, err := gitserver.Repository{Dir: dir}.GitInput([]byte(input), args...)
		check(t, err)
		return strings.TrimSpace(out)
	}
	run("", "clone", "--quiet", w.repo.Dir, h.clone)
	run("", "clone", "--quiet", "--bare", w.repo.Dir, h.inner)
	for _, repo := range []string{h.clone, h.inner} { // git runs a program to verify a signature only if there is one
		head := run("", "-C", repo, "cat-file", "commit", "HEAD")
		head = strings.Replace(head, "\n\n", "\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n aGVsbG8=\n -----END PGP SIGNATURE-----\n\n", 1) + "\n"
		run("", "-C", repo, "update-ref", "HEAD", run(head, "-C", repo, "hash-object", "-t", "commit", "-w", "--stdin"))
	}
	program := filepath.Join(h.inner, "program")
	script := fmt.Sprintf("#!/bin/sh\necho \"$0 $*\" >> %s\n", h.marker)
	for _, name := range []string{program, filepath.Join(h.inner, "hooks", "reference-transaction"), filepath.Join(h.inner, "hooks", "post-index-change")} {
		check(t, os.WriteFile(name, []byte(script), 0o700))
	}
	h.configure(t, h.inner, program)
	home := filepath.Join(dir, "home")
	check(t, os.Mkdir(home, 0o700))
	h.environ = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1"}
	settings := filepath.Join(dir, "settings")
	check(t, os.WriteFile(settings, []byte("[safe]\n\tbareRepository = explicit\n"), 0o600))
	h.explicit = append(slices.Clone(h.environ), "GIT_CONFIG_GLOBAL="+settings)
	return h
}

// configure writes every setting that names a program to a repository's configuration.
func (h hostileClone) configure(t *testing.T, repo, program string) {
	t.Helper()
	for key, value := range map[string]string{
		"gpg.program": program, "gpg.openpgp.program": program, "gpg.x509.program": program, "gpg.ssh.program": program,
		"core.sshCommand": program, "core.askPass": program, "core.pager": program, "core.fsmonitor": program, "core.gitProxy": program,
		"core.editor": program, "core.alternateRefsCommand": program, "core.hooksPath": filepath.Join(h.inner, "hooks"),
		"credential.helper": "!" + program, "credential.http://127.0.0.1.helper": "!" + program, "uploadpack.packObjectsHook": program,
		"pager.log": program, "pager.config": program, "alias.log": "!" + program, "diff.external": program,
		"filter.x.smudge": program, "filter.x.process": program, "log.showSignature": "true", "user.name": "Mallory", "user.email": "mallory@example.com",
		"url.ssh://mallory.invalid/.insteadOf": "http://127.0.0.1", "remote.away.uploadpack": program, "remote.away.url": h.inner,
		"remote.away.promisor": "true", "extensions.partialClone": "away", "core.repositoryFormatVersion": "1",
	} {
		_, err := (gitserver.Repository{Dir: repo}).Git("config", key, value)
		check(t, err)
	}
}

// ranNothing asserts that a command ran no program of the configuration.
func (h hostileClone) ranNothing(t *testing.T, command string, args ...any) {
	t.Helper()
	if text, err := os.ReadFile(h.marker); err == nil {
		t.Errorf(command+" ran %s", append(args, text)...)
		check(t, os.Remove(h.marker))
	}
}

// TestHostileWorkTreeRunsNothing runs every command that reads a repository in a committed
// directory that is itself a bare repository, with and without its name.
func TestHostileWorkTreeRunsNothing(t *testing.T) {
	unraced.Only(t)
	h := newHostileClone(t)
	later := stoppedClock{start.Add(time.Minute)}
	people := map[string][]string{"by default": h.environ, "explicit": h.explicit}
	for who, environ := range people {
		for _, dir := range []string{h.inner, filepath.Join(h.inner, "objects")} {
			t.Chdir(dir)
			if dir != h.inner && who != "explicit" {
				continue
			}
			for _, command := range [][]string{
				{"history"}, {"verify", "--signatures"}, {"report"}, {"preview", "HEAD"}, {"explain", "default"}, {"pause", "default", "--yes"}, {"set", "default", "max=1", "--yes"},
				{"cancel", "default", "--yes"}, {"close-breaker", "default", "--yes"}, {"revert", "12345678", "--yes"}, {"__complete", "pause", ""}, {"__complete", "init", "--queue", ""},
			} {
				code, out, errs := execute(t, program{invocation.Program{Args: command, Clock: later, Environ: environ}})
				if strings.HasPrefix(command[0], "__") {
					if strings.Contains(out, "default") {
						t.Errorf("%s, %q: read the repository: %s", who, command, out)
					}
				} else if code != invocation.ExitUsage || !strings.Contains(errs, "bare") {
					t.Errorf("%s, %q: exit code %d, %.300s", who, command, code, errs)
				}
				h.ranNothing(t, "%s, %q", who, command)
			}
		}
	}
	for who, environ := range people {
		for _, repo := range []string{h.inner, h.clone} {
			if repo == h.clone {
				h.configure(t, h.clone, filepath.Join(h.inner, "program"))
			}
			for _, command := range [][]string{{"history"}, {"verify", "--signatures"}, {"report"}, {"status"}, {"preview", "HEAD"}, {"simulate", "--history", repo, "--overlay", "overlays/default", "--algorithms", "muster"}} {
				code, out, errs := execute(t, program{invocation.Program{Args: command, Clock: later, Environ: append(slices.Clone(environ), "MUSTER_REPO="+repo)}})
				if code == invocation.ExitUsage || code == invocation.ExitOutside {
					t.Errorf("%s, %q of %s: exit code %d, %.300s", who, command, repo, code, errs)
				}
				if command[0] == "verify" && (code != invocation.ExitChanges || !strings.Contains(out, "signature: ")) {
					t.Errorf("%s: verify --signatures of %s: exit code %d, %s", who, repo, code, out)
				}
				h.ranNothing(t, "%s, %q of %s", who, command, repo)
			}
		}
	}
}

// TestHostileWorkTreeGivesNoCredentials reads a server from a directory that is itself a
// bare repository: the address, the ssh program and the credential helpers come from the
// user's configuration.
func TestHostileWorkTreeGivesNoCredentials(t *testing.T) {
	h := newHostileClone(t)
	w, p, stdout, stderr := fleetProgram(t, "status", "-o", "name")
	w.git.SetPassword("hunter2")
	ours, called := filepath.Join(t.TempDir(), "settings"), filepath.Join(t.TempDir(), "called")
	url := strings.Replace(w.git.URL, "http://", "http://git:hunter2@", 1)
	check(t, os.WriteFile(ours+".credentials", []byte(url+"\n"), 0o600))
	settings := fmt.Sprintf("[credential]\n\thelper = store --file %s.credentials\n[includeIf \"gitdir:%s/\"]\n\tpath = %s.clone\n", ours, h.clone, ours)
	inClone := fmt.Sprintf("[core]\n\tsshCommand = echo >> %s\n", called)
	check(t, errors.Join(os.WriteFile(ours, []byte(settings), 0o600), os.WriteFile(ours+".clone", []byte(inClone), 0o600)))
	p.Environ = append(append(p.Environ, h.environ...), "GIT_CONFIG_GLOBAL="+ours)
	t.Chdir(h.inner)
	if code := p.run(t.Context()); code != invocation.ExitOK || stdout.String() != "overlays/default\n" {
		t.Errorf("exit code %d, printed %q and %q", code, stdout, stderr)
	}
	p.Environ = append(p.Environ, "MUSTER_REPO=ssh://git@git.invalid/fleet.git")
	if code := p.run(t.Context()); code != invocation.ExitOutside {
		t.Errorf("over ssh: exit code %d, %s", code, stderr)
	}
	h.ranNothing(t, "status")
	// The user's settings for this clone apply, even if the clone has other settings.
	h.configure(t, h.clone, filepath.Join(h.inner, "program"))
	t.Chdir(h.clone)
	if code := p.run(t.Context()); code != invocation.ExitOutside {
		t.Errorf("over ssh in the clone: exit code %d, %s", code, stderr)
	}
	if _, err := os.Stat(called); err != nil {
		t.Errorf("the person's own program did not run: %v", err)
	}
	h.ranNothing(t, "status in the clone")
}

// TestCloneBehindOrigin asserts that commands in a clone show what origin contains, before and after a
// fetch, and otherwise say what the clone lacks.
func TestCloneBehindOrigin(t *testing.T) {
	unraced.Only(t)
	t.Run("origin", func(t *testing.T) { cloneBehind(t, "origin", false) })
	t.Run("acme", func(t *testing.T) { cloneBehind(t, "acme", false) })
	t.Run("fork", func(t *testing.T) { cloneBehind(t, "upstream", true) })
}

// cloneBehind is TestCloneBehindOrigin for a remote that the branch follows; with fork, origin is a fork that
// nobody updates.
func cloneBehind(t *testing.T, remote string, fork bool) {
	w, _, _, _ := fleetProgram(t)
	clone := filepath.Join(t.TempDir(), "clone")
	git := func(args ...string) {
		t.Helper()
		_, err := gitserver.Repository{Dir: clone}.Git(args...)
		check(t, err)
	}
	_, err := w.repo.Git("clone", "--quiet", "--origin", remote, w.git.URL+"/fleet.git", clone)
	check(t, err)
	if fork {
		copied := filepath.Join(t.TempDir(), "fork.git")
		_, err := w.repo.Git("clone", "--quiet", "--bare", w.repo.Dir, copied)
		check(t, err)
		git("remote", "add", "origin", copied)
		git("fetch", "--quiet", "origin")
	}
	t.Chdir(clone)
	run := func(command string) (out, errs string) {
		t.Helper()
		code, out, errs := execute(t, program{invocation.Program{Args: strings.Fields(command), Environ: []string{"PATH=" + os.Getenv("PATH")}, Clock: stoppedClock{start.Add(time.Hour)}}})
		if code != invocation.ExitOK {
			t.Fatalf("%s: exit code %d: %s", command, code, errs)
		}
		return out, errs
	}
	shows := func(when string) {
		t.Helper()
		for command, want := range map[string]string{
			"status": "paused", "history": "paused false -> true", "report -o md --since 9d": "paused false -> true", "explain default": "Paused", "verify": "3 commits",
		} {
			if out, errs := run(command); !strings.Contains(out, want) || errs != "" {
				t.Errorf("%s %s prints\n%s%s", when, command, out, errs)
			}
		}
	}
	run("pause default --yes" + manualAuthor)
	_, err = w.repo.Commit("Change something else", start.Add(time.Minute))
	check(t, err)
	if _, errs := run("verify HEAD"); !strings.Contains(errs, "the clone lacks the newest commits of "+remote+", until ") {
		t.Errorf("verify of a range prints %s", errs)
	}
	shows("before git fetch")
	git("fetch", "--quiet")
	shows("after git fetch")
	git("pull", "--quiet")
	shows("after git pull")
	git("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "--quiet", "--allow-empty", "--message", "A commit of the clone")
	if out, errs := run("verify"); !strings.Contains(out, "4 commits") || errs != "" {
		t.Errorf("with an own commit it prints %s%s", out, errs)
	}
	_, err = w.repo.Commit("Change more", start.Add(2*time.Minute))
	check(t, err)
	if _, errs := run("status"); !strings.Contains(errs, "the clone lacks the newest commits of "+remote+", until ") {
		t.Errorf("with an own commit and without the newest of origin it prints %s", errs)
	}
	git("fetch", "--quiet")
	if _, errs := run("status"); !strings.Contains(errs, "has commits of its own, and lacks 1 of "+remote) {
		t.Errorf("with an own commit it prints %s", errs)
	}
	w.git.Close()
	if out, errs := run("status"); !strings.Contains(errs, remote+" cannot be read; this is what the clone has") || !strings.Contains(out, "paused") {
		t.Errorf("without origin it prints %s%s", out, errs)
	}
}

// TestFollowInClone asserts that history --follow and status --watch in a clone show commits that others push.
func TestFollowInClone(t *testing.T) {
	unraced.Only(t)
	for _, command := range []string{"history --follow", "status --watch"} {
		w, _, _, _ := fleetProgram(t)
		clone := filepath.Join(t.TempDir(), "clone")
		_, err := w.repo.Git("clone", "--quiet", w.git.URL+"/fleet.git", clone)
		check(t, err)
		t.Chdir(clone)
		var stdout, stderr bytes.Buffer
		p := program{invocation.Program{Args: strings.Fields(command), Environ: []string{"PATH=" + os.Getenv("PATH")}, Stdout: &stdout, Stderr: &stderr}}
		runScripted(t, p, start, func() {
			if code, _, errs := execute(t, program{invocation.Program{Args: strings.Fields("pause default --yes" + manualAuthor), Environ: p.Environ}}); code != invocation.ExitOK {
				t.Errorf("pause: exit code %d: %s", code, errs)
			}
		})
		if !strings.Contains(stdout.String(), "pause") || stderr.Len() > 0 {
			t.Errorf("%s prints\n%s%s", command, &stdout, &stderr)
		}
	}
}
