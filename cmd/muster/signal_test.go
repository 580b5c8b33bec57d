package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"muster/gitops/canarytest"
)

// endless returns a fleet repository with a template that kustomize would build for an hour:
// many patches change many objects.
func endless(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var quiet bytes.Buffer
	if err := initialise(&quiet, dir, newOverlay{queue: defaultQueue}); err != nil {
		t.Fatal(err)
	}
	var objects, patches strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&objects, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d}\n---\n", i)
	}
	patches.WriteString("resources: [objects.yaml]\npatches:\n")
	for range 3000 {
		patches.WriteString("- {target: {kind: ConfigMap}, path: p}\n")
	}
	for name, text := range map[string]string{"objects.yaml": objects.String(), "p": "[{op: add, path: /data, value: {a: b}}]", "kustomization.yaml": patches.String()} {
		if err := os.WriteFile(filepath.Join(dir, "overlays/default/template", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// childrenOf returns the child processes of a process.
func childrenOf(t *testing.T, parent int) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var children []int
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// proc(5): pid (comm) state ppid
		_, after, _ := strings.Cut(string(text), ") ")
		if fields := strings.Fields(after); len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			children = append(children, pid)
		}
	}
	return children
}

// TestTerminatedWhileBuilding asserts that SIGTERM ends check and run, and their child
// processes, during a build that would take an hour.
func TestTerminatedWhileBuilding(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("this system has no /proc to look for the process that builds in")
	}
	t.Parallel()
	dir := endless(t)
	w := startScenario(t)
	changes, err := filesBelow(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.repo.Commit("A fleet", start, changes...); err != nil {
		t.Fatal(err)
	}
	remote := []string{"MUSTER_REPO=" + w.git.URL + "/fleet.git", "MUSTER_BUILDKITE_ORG=acme", "MUSTER_BUILDKITE_URL=" + w.api.URL + "/",
		"BUILDKITE_API_TOKEN=" + canarytest.BuildkiteToken, "MUSTER_STARTUP_JITTER=0s"}
	for name, c := range map[string]struct {
		environ, args []string
		code          int
		last          string
	}{
		"check":    {nil, []string{"check", dir}, exitOutside, "muster: the files are not checked: "},
		"run once": {remote, []string{"run", "--once"}, exitOutside, "context canceled"},
		"run":      {remote, []string{"run"}, exitOK, "msg=stopped"},
	} {
		t.Run(name, func(t *testing.T) {
			p := started(t, c.environ, c.args...)
			var children []int
			until(func() bool { children = childrenOf(t, p.Process.Pid); return len(children) > 0 })
			if err := p.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			var exit *exec.ExitError
			if err := p.Wait(); err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			until(func() bool {
				for _, child := range children {
					if ended := errors.Is(syscall.Kill(child, 0), syscall.ESRCH); !ended && !zombie(child) {
						return false
					}
				}
				return true
			})
			lines := strings.Split(strings.TrimSpace(p.text()), "\n")
			if code := p.ProcessState.ExitCode(); code != c.code || !strings.Contains(lines[len(lines)-1], c.last) {
				t.Errorf("exit code %d, want %d and %q; it printed\n%s", code, c.code, c.last, p.text())
			}
			for _, word := range []string{"kustomize more than", "muster init", "level=ERROR"} {
				if strings.Contains(p.text(), word) {
					t.Errorf("it says %q:\n%s", word, p.text())
				}
			}
		})
	}
}

// zombie reports whether a process has ended but was not waited for.
func zombie(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(text), ") ")
	return err == nil && strings.HasPrefix(after, "Z")
}

// TestWarningsAreNotPrinted asserts that muster does not print kustomize's warnings.
func TestWarningsAreNotPrinted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var quiet bytes.Buffer
	if err := initialise(&quiet, dir, newOverlay{queue: defaultQueue}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlays/default/template/kustomization.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, "commonLabels: {team: ci}\n"...)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	p := started(t, nil, "check", dir)
	if err := p.Wait(); err != nil || p.text() != "OK\n" {
		t.Errorf("%v, printed\n%s", err, p.text())
	}
}

// TestCheckInterrupted asserts that an interrupted check prints no result.
func TestCheckInterrupted(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	var out, errs bytes.Buffer
	p := program{args: []string{"check", endless(t)}, stdout: &out, stderr: &errs}
	if code := p.run(ended); code != exitOutside || out.Len() > 0 || errs.String() != "muster: the files are not checked: context canceled\n" {
		t.Errorf("exit code %d, printed %q and %q", code, out.String(), errs.String())
	}
}
