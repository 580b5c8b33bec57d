package ledger

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// gitTrailers is what git makes of a message.
func gitTrailers(t interface{ Fatalf(string, ...any) }, message string) string {
	c := exec.Command("git", "interpret-trailers", "--parse", "--no-divider")
	c.Env = append(c.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_DIR=/nowhere", "LC_ALL=C")
	c.Stdin = strings.NewReader(message)
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		t.Fatalf("git: %v\n%s", err, errs.String())
	}
	return string(out)
}

// ourTrailers is what this package makes of it, printed as git prints it.
func ourTrailers(message string) string {
	var b strings.Builder
	for _, t := range readTrailers(strings.Split(message, "\n")) {
		b.WriteString(t.key + ": " + t.value + "\n")
	}
	return b.String()
}

// TestTrailersAreGits: messages as they come, and pieces put together at random.
func TestTrailersAreGits(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	pieces := []string{
		"default: dispatch 3 agents\n", "\n", "\n", "\n", " \n", "prose that says something\n", "  indented: prose\n", "\tindented\n", "Overlay: overlays/default\n", "Operation: dispatch\n",
		"Act : retire\n", "Observation: {\"at\":1}\n", "Signed-off-by: A <a@example.com>\n", "(cherry picked from commit 0123)\n", "# a comment\n", "Conflicts:\n",
		"\tfile.go\n", "-- \n", "Key:\n", ": value\n", "Operation=retire\n", "two words: value\n", "ü: value\n", "http://example.com/\n", "CI: [skip ci]\n", "This reverts commit 0123.\n", "> Operation: retire\n",
	}
	for _, m := range []string{"", "\n", "Operation: retire", "x\n\nOperation: retire", "\n\nx\n\nOperation: retire\n", "x\n\nOperation: retire\n\n\n", "x\n\nOperation: retire\n  now\n", "\nOperation: retire\n# a comment\n  not now\n", "x\nOperation: retire\n",
		"x\n\nA0-9Zaz: v\n", "x\n\nKey\t: v\n", "x\n\n: v\nOperation: retire\n", "x\n\n\t: v\n", "x\n\nOperation: retire\n\v\n", "x\n\nOperation: retire\n\r\n", "x\n\nAct:\v retire\f\n", "x\n\nOperation: retire\n\vnow\n",
		// What git ignores at the end: comments, and a list of conflicts, which has to have a line end.
		"x\n\nOperation: retire\n\n# a comment\n", "x\n\nOperation: retire\n\nConflicts:\n\tfile.go\n", "x\n\nOperation: retire\n\nConflicts:\n\tfile.go\n# a comment\n\n", "x\n\nOperation: retire\n\nConflicts:",
		"x\n\nOperation: retire\n\n\tfile.go\n", "x\n\nOperation: retire\nConflicts:\n\tfile.go\n\n# a comment\n\tfile.go\n", "x\n\nOperation: retire\n\nConflicts:\nprose\n\tfile.go\n"} {
		if got, want := ourTrailers(m), gitTrailers(t, m); got != want {
			t.Errorf("of %q: %q, git has %q", m, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		m := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 14).Draw(t, "pieces"), "")
		if rapid.Bool().Draw(t, "cut") {
			m = strings.TrimSuffix(m, "\n")
		}
		if got, want := ourTrailers(m), gitTrailers(t, m); got != want {
			t.Fatalf("of %q:\n%s\ngit has\n%s", m, got, want)
		}
	})
}
