package ledger_test

import (
	"os/exec"
	"strings"
	"testing"

	"muster/generator/ledger"
)

// TestStyle: people are in the trailers, and the marker is within the 250 characters that CircleCI reads. git finds
// all trailers, and Parse returns what was written.
func TestStyle(t *testing.T) {
	t.Parallel()
	op := goldenOperations(t)["testdata/demand-and-warm-pool.txtar"]
	for _, c := range []struct {
		name                    string
		style                   ledger.Style
		marker, trailers, never string
	}{
		{"people", ledger.Style{SignOff: "Ada <ada@example.com>", CoAuthors: []string{"Bob <bob@example.com>", "Eve <eve@example.com>"}, Skip: "skip-checks:true"}, "CI: skip-checks:true", "Signed-off-by: Ada <ada@example.com>\nCo-authored-by: Bob <bob@example.com>\nCo-authored-by: Eve <eve@example.com>\n", "[skip ci]"},
		{"no marker", ledger.Style{NoSkip: true}, "", "Muster: v1\n", "CI:"},
	} {
		if err := c.style.Check(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		message := c.style.Message(op, "v1")
		wantEntry(t, message, op, "v1")
		if c.marker != "" {
			at := strings.Index(message, "\n\n"+c.marker+"\n\n")
			if subject := strings.Index(message, "\n"); at != subject || at+len(c.marker) > 250 {
				t.Errorf("%s: the marker does not follow the subject:\n%s", c.name, message)
			}
		}
		if !strings.HasSuffix(message, c.trailers) || c.never != "" && strings.Contains(message, c.never) {
			t.Errorf("%s ends otherwise, or has %q:\n%s", c.name, c.never, message)
		}
		wantTrailers(t, message)
	}
}

// wantTrailers asserts that git finds the trailers of a message.
func wantTrailers(t *testing.T, message string) {
	t.Helper()
	git := exec.Command("git", "interpret-trailers", "--parse", "--no-divider")
	git.Stdin = strings.NewReader(message)
	out, err := git.Output()
	if want := message[strings.LastIndex(message, "\n\n")+2:]; err != nil || string(out) != want {
		t.Errorf("git finds %d bytes of trailers, %v; want %d: %.1000s", len(out), err, len(want), want)
	}
}

// TestStyleMistakes: Check rejects people and markers that a trailer cannot contain.
func TestStyleMistakes(t *testing.T) {
	t.Parallel()
	for _, s := range []ledger.Style{{SignOff: "Ada"}, {CoAuthors: []string{"Ada <ada@x>\nOperation: retire"}}, {Skip: "a\nb"}, {Skip: " x"}, {Skip: "x", NoSkip: true}} {
		if s.Check() == nil {
			t.Errorf("%+v is taken", s)
		}
	}
}
