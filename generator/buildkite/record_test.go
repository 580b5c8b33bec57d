package buildkite

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	"pgregory.net/rapid"
)

// TestTexts: lists of strings are read as encoding/json reads them, the short way
// and the long way, without the blanks around and without what is no string.
func TestTexts(t *testing.T) {
	values := []any{"queue=default", "os=linux", "a", " a", "a ", "", " ", `"`, `\`, "é", "a,b", "[", "\n", nil, 1.0, true}
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.SampledFrom(values), 0, 4).Draw(t, "list")
		if rapid.Bool().Draw(t, "plain") {
			list = slices.DeleteFunc(list, func(v any) bool { s, ok := v.(string); return !ok || len(s) < 3 })
		}
		var want []string
		for _, v := range list {
			if s, ok := v.(string); ok && strings.TrimSpace(s) != "" {
				want = append(want, strings.TrimSpace(s))
			}
		}
		raw, err := json.Marshal(list)
		if rapid.Bool().Draw(t, "indented") {
			raw, err = json.MarshalIndent(list, "", " ")
		}
		if err != nil {
			t.Fatal(err)
		}
		got := texts{"of the record before"}
		if err := jsonv2.Unmarshal(raw, &got, lenient); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%s is read as %q, want %q (%v)", raw, got, want, err)
		}
	})
	for _, raw := range []string{"null", "{}", `"a"`, "1"} {
		got := texts{"of the record before"}
		if err := jsonv2.Unmarshal([]byte(raw), &got, lenient); err != nil || len(got) > 0 {
			t.Errorf("%s is read as %q (%v)", raw, got, err)
		}
	}
}
