package plan

import "testing"

// TestWildcards: "key=*" and "key=" take any value of key, and nothing else is
// a wildcard; case counts.
func TestWildcards(t *testing.T) {
	tags := []string{"queue=q", "os=linux", "empty="}
	for rule, want := range map[string]bool{
		"os=linux": true, "os=*": true, "os=": true, "queue=": true, "empty=": true, "empty=*": true,
		"os=lin*": false, "os=mac": false, "arch=*": false, "arch=": false, "o=": false, "os": false, "*": false, "os=linux=": false,
		"OS=linux": false, "os=Linux": false, "OS=*": false, "QUEUE=": false, // letters count as they are
	} {
		if got := Satisfies(tags, []string{rule}); got != want {
			t.Errorf("the rule %q is satisfied: %t, want %t", rule, got, want)
		}
	}
}
