package ledger_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"muster/generator/ledger"
	"muster/generator/plan"
)

// TestHostileWords asserts that untrusted text in a commit's message, which are rules of jobs and names
// of schedules, mentions nobody, closes no issue and adds no trailer.
func TestHostileWords(t *testing.T) {
	words := []string{
		"a=b\nOperation: retire", "a=\x1b[2J", "a=\u202eevil", "a=\u009b2J", "a=\U000e0041", "a=@acme/team", "a=x closes #1", "Fixes: acme/app#2",
		"a=resolved https://github.com/acme/app/issues/3", "a=\xff", "a=日本", "a=b c",
	}
	o := plan.Observation{Queue: "default", Unmatched: []plan.Unmatched{{Rules: words, Missing: words, Jobs: 3}}}
	message := ledger.Message(ledger.Operation{Kind: ledger.Dispatch, Path: "overlays/default", Decision: plan.Decision{Overlay: "default", Observation: o,
		Schedule: "fixes acme/x#1 @torvalds closes https://github.com/acme/x/issues/1"}}, "v0")
	lower := strings.ToLower(message)
	for _, bad := range []string{"@", "closes #", "fixes: acme", "resolved https", "x#1", "://github.com/acme/x/"} {
		if strings.Contains(lower, bad) {
			t.Errorf("%q stands in\n%s", bad, message)
		}
	}
	for _, c := range message {
		if c != '\n' && !unicode.IsPrint(c) {
			t.Errorf("%U stands in\n%s", c, message)
		}
	}
	if !strings.Contains(message, "Schedule \"") {
		t.Errorf("the schedule is missing in\n%s", message)
	}
	trailers := 0
	for line := range strings.Lines(message) {
		if strings.HasPrefix(line, "Operation: ") {
			trailers++
		}
		text, ok := strings.CutPrefix(line, "Observation: ")
		if !ok {
			continue
		}
		var back plan.Observation
		if err := json.Unmarshal([]byte(text), &back); err != nil {
			t.Fatal(err)
		}
		words[9] = "a=\ufffd" // what JSON makes of what is no UTF-8
		if diff := cmp.Diff(words, back.Unmatched[0].Rules); diff != "" {
			t.Errorf("read back (-want +got)\n%s", diff)
		}
	}
	if trailers != 1 {
		t.Errorf("%d lines say what the operation is:\n%s", trailers, message)
	}
}
