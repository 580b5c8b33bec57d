package manual

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestMergeAsGit: what is merged is what git merges, and what git calls a conflict is one.
// Lines that are there several times are left out: which of them was changed is a guess,
// and git may guess otherwise.
func TestMergeAsGit(t *testing.T) {
	dir := t.TempDir()
	line := rapid.SampledFrom([]string{"a\n", "b\n", "c\n", "d\n", "e\n", "f\n", "g\n", "h\n", "i\n", "j\n", "k\n", "l\n"})
	merged := 0
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.SliceOfNDistinct(line, 1, 12, rapid.ID[string]).Draw(t, "base")
		edited := func(label string) string {
			lines := append([]string{}, base...)
			for range rapid.IntRange(0, 2).Draw(t, label) {
				at := rapid.IntRange(0, len(lines)-1).Draw(t, "at")
				switch rapid.IntRange(0, 2).Draw(t, "what") {
				case 0:
					lines[at] = label + strconv.Itoa(len(lines)) + strconv.Itoa(at) + "\n"
				case 1:
					lines[at] += label + strconv.Itoa(at) + "\n"
				default:
					if len(lines) > 1 {
						lines = append(lines[:at:at], lines[at+1:]...)
					}
				}
			}
			return strings.Join(lines, "")
		}
		mine, theirs := edited("mine"), edited("theirs")
		got, ok := merge(strings.Join(base, ""), mine, theirs)
		if !ok {
			return // more careful than git, which lets lines beside each other be changed
		}
		want, conflict := gitMerge(t, dir, strings.Join(base, ""), mine, theirs)
		if conflict || got != want {
			t.Fatalf("of\n%v\n%q and %q become\n%q, git makes\n%q (conflict: %t)", base, mine, theirs, got, want, conflict)
		}
		merged++
	})
	if merged == 0 {
		t.Error("nothing was merged")
	}
}

func gitMerge(t *rapid.T, dir, base, mine, theirs string) (text string, conflict bool) {
	for name, text := range map[string]string{"base": base, "mine": mine, "theirs": theirs} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command("git", "merge-file", "--stdout", "mine", "base", "theirs")
	c.Dir = dir
	out, err := c.Output()
	var failed *exec.ExitError
	if err != nil && (!errors.As(err, &failed) || failed.ExitCode() < 0 || failed.ExitCode() > 127) {
		t.Fatal(err)
	}
	return string(out), err != nil
}
