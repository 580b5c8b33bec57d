package overlays

import (
	"bytes"
	"io/fs"
	"testing"

	"muster/generator/policy"

	"github.com/google/go-cmp/cmp"
)

// The new policy is valid, and what its comments call defaults are the
// defaults: taking the # off every field changes nothing.
func TestNewPolicyShowsTheDefaults(t *testing.T) {
	text, err := fs.ReadFile(Files, "default/scaling.yaml")
	if err != nil {
		t.Fatal(err)
	}
	written, err := policy.Parse("scaling.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	spelled := bytes.ReplaceAll(text, []byte("\n  # "), []byte("\n  "))
	if n := bytes.Count(text, []byte("\n  # ")); n != 12 {
		t.Errorf("%d fields are shown as comments, want the 12 that may be left out and have their default", n)
	}
	defaults, err := policy.Parse("scaling.yaml", spelled)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(written, defaults); diff != "" {
		t.Errorf("left out (-) and spelled out (+) differ:\n%s", diff)
	}
}
