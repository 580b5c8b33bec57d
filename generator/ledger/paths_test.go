package ledger

import (
	"strings"
	"testing"
)

// TestPaths: an overlay's directory is written in one way only.
func TestPaths(t *testing.T) {
	for path, fine := range map[string]bool{
		"overlays/default": true, "overlays/Größe 2": true, "..a": true,
		"": false, ".": false, "..": false, "../x": false, "/x": false, "x/": false, "x//y": false, "x/../y": false, "./x": false,
		"x\ny": false, "x\u202ey": false, "x\xff": false,
	} {
		if isPath(path) != fine {
			t.Errorf("%q is a path: %t", path, !fine)
		}
	}
}

// TestShown: another library's words are one line of a bounded length.
func TestShown(t *testing.T) {
	for text, want := range map[string]string{
		"a\tb\u202ec": "a b c", strings.Repeat("x", 200): strings.Repeat("x", 200), strings.Repeat("x", 199) + "é": strings.Repeat("x", 199) + "…",
	} {
		if got := shown(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
