package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/cmd/invocation"
	"muster/gitops/gitserver"
	"muster/gitops/unraced"
)

// TestOriginsOfClone asserts that the addresses of a remote that git accepts in a clone work from its top and from a
// directory below it, and that manual changes are pushed where git pushes.
func TestOriginsOfClone(t *testing.T) {
	unraced.Only(t)
	w, _, _, _ := fleetProgram(t)
	top := filepath.Join(t.TempDir(), "clone")
	_, err := w.repo.Git("clone", "--quiet", w.repo.Dir, top)
	check(t, err)
	clone := gitserver.Repository{Dir: top}
	check(t, os.Symlink(filepath.Dir(w.repo.Dir), filepath.Join(top, "srv")))
	relative, err := filepath.Rel(top, w.repo.Dir)
	check(t, err)
	pause := func(args string) (code int, errs string) {
		code, _, errs = execute(t, program{invocation.Program{Args: strings.Fields("pause default --yes" + manualAuthor + args), Environ: []string{"PATH=" + os.Getenv("PATH")}}})
		return code, errs
	}
	for _, address := range []string{w.repo.Dir, "file://" + w.repo.Dir, relative, "srv/fleet.git", "./srv/fleet.git", "srv/fleet", "srv/none.git", w.git.URL + "/fleet.git"} {
		_, err := clone.Git("remote", "set-url", "origin", address)
		check(t, err)
		for _, below := range []string{"", "overlays/default"} {
			t.Chdir(filepath.Join(top, below))
			_, failed := gitserver.Repository{Dir: filepath.Join(top, below)}.Git("ls-remote", "origin", "main")
			if code, errs := pause(" --dry-run"); (failed == nil) != (code == invocation.ExitOK) {
				t.Errorf("%s from %q: git: %v; muster: %d, %s", address, below, failed, code, errs)
			}
		}
	}
	pushed := filepath.Join(t.TempDir(), "pushed.git")
	_, err = w.repo.Git("clone", "--quiet", "--bare", w.repo.Dir, pushed)
	check(t, err)
	_, err = clone.Git("remote", "set-url", "--push", "origin", pushed)
	check(t, err)
	if code, errs := pause(""); code != invocation.ExitOK {
		t.Fatalf("%d: %s", code, errs)
	}
	fetched, err := w.repo.Git("rev-parse", "main~0")
	check(t, err)
	if got, err := (gitserver.Repository{Dir: pushed}).Git("rev-parse", "main~1"); err != nil || got != fetched {
		t.Errorf("the repository that git pushes to has %s before its head, want %s (%v)", got, fetched, err)
	}
}
