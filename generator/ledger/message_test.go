package ledger_test

import (
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"muster/generator/ledger"
	"muster/generator/plan"
)

// TestHostileWords asserts that untrusted text in a commit's message, which are rules of jobs, names of
// schedules, problems of files and authors and subjects of commits, mentions nobody, closes no issue and
// adds no trailer.
func TestHostileWords(t *testing.T) {
	words := []string{
		"a=b\nOperation: retire", "a=\x1b[2J", "a=\u202eevil", "a=\u009b2J", "a=\U000e0041", "a=@acme/team", "a=x closes #1", "Fixes: acme/app#2",
		"a=resolved https://github.com/acme/app/issues/3", "a=\xff", "a=日本", "a=b c",
	}
	o := plan.Observation{At: time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC), Queue: "default"}
	var ops []ledger.Draft
	for _, w := range words {
		ops = append(ops, ledger.Draft{
			Kind: ledger.Repair, Path: "overlays/default", Base: base, Decision: plan.Decision{Overlay: "default", Observation: o},
			Faults:   []ledger.Fault{{File: "state.yaml", Problem: w}},
			Suspects: []ledger.Suspect{{Commit: "0123", Author: w, Subject: w}},
		})
	}
	o.Unmatched = []plan.Unmatched{{Rules: words, Missing: words, Jobs: 3}}
	ops = append(ops, ledger.Draft{Kind: ledger.Dispatch, Path: "overlays/default", Base: base, Decision: plan.Decision{
		Overlay: "default", Observation: o, Dispatch: []plan.Dispatch{{ID: "default-1", Agents: 1}},
		Schedule: "fixes acme/x#1 @torvalds closes https://github.com/acme/x/issues/1",
	}})
	var message string
	for _, op := range ops {
		message = ledger.Message(op, "v0")
		lower := strings.ToLower(message)
		for _, bad := range []string{"@", "closes #", "fixes: acme/app#", "resolved https://", "x#1", "://github.com/acme/x"} {
			if strings.Contains(lower, bad) {
				t.Errorf("%q stands in\n%s", bad, message)
			}
		}
		for _, c := range message {
			if c != '\n' && !unicode.IsPrint(c) {
				t.Errorf("%U stands in\n%s", c, message)
			}
		}
		if n := strings.Count(message, "\nOperation: "); n != 1 {
			t.Errorf("%d lines say what the operation is:\n%s", n, message)
		}
	}
	if !strings.Contains(message, "Schedule \"") {
		t.Errorf("the schedule is missing in\n%s", message)
	}
	e, err := ledger.Parse(message)
	if err != nil {
		t.Fatal(err)
	}
	words[9] = "a=\ufffd" // what JSON makes of what is no UTF-8
	if diff := cmp.Diff(words, e.Observation.Unmatched[0].Rules); diff != "" {
		t.Errorf("read back (-want +got)\n%s", diff)
	}
}
