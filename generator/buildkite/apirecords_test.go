package buildkite

import (
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// TestTexts asserts that lists are read without blanks around strings and without values of other
// types, also into a variable that is reused.
func TestTexts(t *testing.T) {
	for raw, want := range map[string][]string{
		`["queue=default","os=linux"]`: {"queue=default", "os=linux"}, `[ "a" , "b" ]`: {"a", "b"},
		`[" a","a ",""," ","\t"]`: {"a", "a"}, `["\"","\\","é","\u00e9","a,b","[","\n\u0061"]`: {`"`, `\`, "é", "é", "a,b", "[", "a"},
		`["a",null,1,true,["b"],{"c":"d"},"e"]`: {"a", "e"}, "[]": nil, "null": nil, "{}": nil, `"a"`: nil, "1": nil,
	} {
		shared := words{reader: newBuildReader(&session{}), list: []string{"of the record before"}}
		own := texts(shared.list)
		if err := json.Unmarshal([]byte(raw), &own, lenient); err != nil || !slices.Equal(own, want) {
			t.Errorf("%s is read as %q, want %q (%v)", raw, own, want, err)
		}
		if err := json.Unmarshal([]byte(raw), &shared, lenient); err != nil || !slices.Equal(shared.list, want) {
			t.Errorf("%s is read as %q, want %q (%v)", raw, shared.list, want, err)
		}
	}
}

// TestMoments asserts that a time that no commit can contain counts as absent.
func TestMoments(t *testing.T) {
	for raw, want := range map[string]string{
		`"2026-11-21T02:15:00.5Z"`: "2026-11-21T02:15:00.5Z", `"2026-11-21T03:15:00+01:00"`: "2026-11-21T02:15:00Z", `"2026-11-21 02:15:00 UTC"`: "2026-11-21T02:15:00Z",
		`"9999-12-31T23:59:59Z"`: "", `"2500-01-01T00:00:00Z"`: "", `"1066-10-14T09:00:00Z"`: "", `"0001-01-01T00:00:01Z"`: "", `"soon"`: "", "null": "", "7": "", "{}": "",
	} {
		m := moment{at: time.Unix(1, 0)}
		err := json.Unmarshal([]byte(raw), &m, lenient)
		got := ""
		if !m.at.IsZero() {
			got = m.at.Format(time.RFC3339Nano)
		}
		if err != nil || got != want {
			t.Errorf("%s is read as %q, want %q (%v)", raw, got, want, err)
		}
	}
}
