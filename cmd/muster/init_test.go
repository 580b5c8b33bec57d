package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/cmd/invocation"
)

// TestInitPrompts asserts that init prompts for the queue on a terminal, and that an empty
// answer is the default, with a hint.
func TestInitPrompts(t *testing.T) {
	for _, test := range []struct {
		name, answer, overlay string
		terminal, asks, hints bool
		args                  []string
	}{
		{"an answer", "linux-large\n", "linux-large", true, true, false, nil},
		{"an answer without an end", " linux-large", "linux-large", true, true, false, nil},
		{"an empty answer", "\n", "default", true, true, true, nil},
		{"no answer", "", "default", true, true, true, nil},
		{"the default by name", "default\n", "default", true, true, false, nil},
		{"no terminal", "linux-large\n", "default", false, false, true, nil},
		{"a flag", "linux-large\n", "mac", true, false, false, []string{"--queue", "mac"}},
	} {
		dir := filepath.Join(t.TempDir(), "fleet")
		code, out, errs := execute(t, program{invocation.Program{Args: append([]string{"init", dir}, test.args...), Stdin: strings.NewReader(test.answer), Terminal: test.terminal}})
		if code != invocation.ExitOK {
			t.Errorf("%s: exit code %d: %s", test.name, code, errs)
		}
		if _, err := os.Stat(filepath.Join(dir, "overlays", test.overlay, "scaling.yaml")); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if asks := strings.Contains(out, "Key of the self-hosted Buildkite queue"); asks != test.asks {
			t.Errorf("%s: asks: %t", test.name, asks)
		}
		if hints := strings.Contains(out, "of that name: create"); hints != test.hints {
			t.Errorf("%s: hints: %t", test.name, hints)
		}
	}
}

// TestDeployedVersion asserts that init writes the program's version, as a valid tag, for each
// image.
func TestDeployedVersion(t *testing.T) {
	part, err := deployment("v9.8.7+6")
	check(t, err)
	images := 0
	for name, content := range part.Files {
		text := string(content)
		images += strings.Count(text, "newName: ")
		if strings.Count(text, "newName: ") != strings.Count(text, "newTag: v9.8.7-6\n") {
			t.Errorf("%s:\n%s", name, text)
		}
	}
	if images < 2 {
		t.Errorf("%d images are named", images)
	}
}

// TestNoTerminal asserts that neither a file nor the null device is a terminal.
func TestNoTerminal(t *testing.T) {
	for _, name := range []string{os.DevNull, "init_test.go"} {
		f, err := os.Open(name)
		check(t, err)
		if invocation.IsTerminal(f) {
			t.Errorf("%s is taken for a terminal", name)
		}
		f.Close()
	}
}

// TestInitSaysWhatItIgnores asserts that init names flags that existing files contradict, and the name
// that it derives from a queue.
func TestInitSaysWhatItIgnores(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"", "wrote overlays/default", invocation.ExitOK},
		{"--overlay default --queue other", "overlays/default exists: unchanged, with the queue default instead of other: edit it, or give another --overlay", invocation.ExitOK},
		{"--overlay default --cluster eu", `overlays/default exists: unchanged, with the cluster "" instead of "eu"`, invocation.ExitOK},
		{"--queue UPPER", "the overlay of the queue UPPER is called upper-", invocation.ExitOK},
		{"--syncer flux", "wrote syncer/", invocation.ExitOK},
		{"--syncer argocd", "is for flux; remove it, or give --syncer flux", invocation.ExitUsage},
		{"--queue windows --syncer argocd", "wrote syncer/", invocation.ExitOK},
	} {
		code, out, errs := execute(t, program{invocation.Program{Args: append([]string{"init", dir}, strings.Fields(c.args)...)}})
		if code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("init %s: exit code %d, printed\n%s%s", c.args, code, out, errs)
		}
	}
}
