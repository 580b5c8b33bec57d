package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"muster/cmd/invocation"
	"muster/cmd/starter"
)

// endless returns a fleet repository with a template that kustomize would build for an hour:
// many patches change many objects.
func endless(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	check(t, initialise(io.Discard, dir, newOverlay{Overlay: starter.Overlay{Queue: starter.DefaultQueue}}))
	var objects, patches strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&objects, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d}\n---\n", i)
	}
	patches.WriteString("resources: [objects.yaml]\npatches:\n")
	for range 3000 {
		patches.WriteString("- {target: {kind: ConfigMap}, path: p}\n")
	}
	for name, text := range map[string]string{"objects.yaml": objects.String(), "p": "[{op: add, path: /data, value: {a: b}}]", "kustomization.yaml": patches.String()} {
		check(t, os.WriteFile(filepath.Join(dir, "overlays/default/template", name), []byte(text), 0o600))
	}
	return dir
}

// childrenOf returns the child processes of a process, or of "self".
func childrenOf(process string) []string {
	var children []string
	lists, _ := filepath.Glob("/proc/" + process + "/task/*/children")
	for _, file := range lists {
		list, _ := os.ReadFile(file)
		children = append(children, strings.Fields(string(list))...)
	}
	return children
}

// ended reports whether a process has ended, also if nobody has waited for it.
func ended(process string) bool {
	text, err := os.ReadFile("/proc/" + process + "/stat")
	_, after, _ := strings.Cut(string(text), ") ") // proc(5): pid (comm) state
	return err != nil || strings.HasPrefix(after, "Z")
}

// TestTerminatedWhileBuilding asserts that SIGTERM ends check and run, and their child
// processes, during a build that would take an hour.
func TestTerminatedWhileBuilding(t *testing.T) {
	if _, err := os.Stat("/proc/thread-self/children"); err != nil {
		t.Skip("this system has no /proc to look for the process that builds in")
	}
	t.Parallel()
	dir := endless(t)
	w, fleet, _, _ := fleetProgram(t)
	changes, err := filesBelow(os.DirFS(dir))
	check(t, err)
	_, err = w.repo.Commit("An endless template", start, changes...)
	check(t, err)
	remote := append(fleet.Environ, "MUSTER_STARTUP_JITTER=0s")
	for name, c := range map[string]struct {
		environ, args []string
		code          int
		last          string
	}{
		"check":    {nil, []string{"check", dir}, invocation.ExitOutside, "muster: interrupted: the files are not checked; run it again"},
		"run once": {remote, []string{"run", "--once"}, invocation.ExitOutside, "muster: interrupted: the tick was not completed"},
		"run":      {remote, []string{"run"}, invocation.ExitOK, "msg=stopped"},
	} {
		t.Run(name, func(t *testing.T) {
			p := started(t, c.environ, c.args...)
			var children []string
			until(func() bool { children = childrenOf(strconv.Itoa(p.Process.Pid)); return len(children) > 0 })
			check(t, p.Process.Signal(syscall.SIGTERM))
			var exit *exec.ExitError
			if err := p.Wait(); err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			for _, child := range children {
				until(func() bool { return ended(child) })
			}
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

// TestWarningsAreNotPrinted asserts that muster does not print kustomize's warnings.
func TestWarningsAreNotPrinted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	check(t, initialise(io.Discard, dir, newOverlay{Overlay: starter.Overlay{Queue: starter.DefaultQueue}}))
	file := filepath.Join(dir, "overlays/default/template/kustomization.yaml")
	text, err := os.ReadFile(file)
	check(t, err)
	text = append(text, "commonLabels: {team: ci}\n"...)
	check(t, os.WriteFile(file, text, 0o600))
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
	p := program{invocation.Program{Args: []string{"check", endless(t)}, Stdout: &out, Stderr: &errs}}
	if code := p.run(ended); code != invocation.ExitOutside || out.Len() > 0 || errs.String() != "muster: interrupted: the files are not checked; run it again\n" {
		t.Errorf("exit code %d, printed %q and %q", code, out.String(), errs.String())
	}
}
