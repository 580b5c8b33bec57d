package plan

import (
	"slices"
	"testing"
	"time"
)

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

// TestPodTags asserts that the tags of agents of the warm pool contain their idle time-out.
func TestPodTags(t *testing.T) {
	tags := []string{"queue=q"}
	for purpose, want := range map[Purpose][]string{
		ForDemand: {"queue=q", "dispatch=d"}, ForWarmPool: {"queue=q", "dispatch=d", "muster-warm=3600"},
	} {
		if got := (Dispatch{ID: "d", Tags: tags, Purpose: purpose, IdleTimeout: time.Hour}).PodTags(); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", purpose, got, want)
		}
	}
}
