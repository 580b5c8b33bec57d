package buildkite

import (
	"slices"
	"testing"

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
