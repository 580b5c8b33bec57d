package manual

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"muster/gitops/branch"
	"muster/gitops/leaktest"
)

// TestUntrustedTextIsEscaped: messages and pull requests escape control characters, mentions and
// issue keywords in reasons and in the messages of reverted commits. A reason is one whole line.
func TestUntrustedTextIsEscaped(t *testing.T) {
	e := Edit{Subject: `Revert "` + leaktest.Words() + `"`, Says: []string{"a", leaktest.Words()}, Notes: []string{leaktest.Words()}}
	reason := leaktest.Words() + "\nOverlay: overlays/default\r\nOperation: dispatch, Fixes PROJ-12 " + strings.Repeat("long ", 100) + "end"
	title, text := e.Proposal(reason)
	for name, words := range map[string]string{"message": e.Message("", "", reason), "title": title, "text": text} {
		if found := leaktest.Committed(words); len(found) > 0 || strings.Contains(words, "PROJ-12") {
			t.Errorf("%s: %q in\n%s", name, found, words)
		}
		if name != "title" && !strings.HasSuffix(strings.TrimSpace(words), "long end") {
			t.Errorf("%s: the reason is cut:\n%s", name, words)
		}
		if strings.Contains(words, "\nOverlay:") || strings.Contains(words, "\nAct:") {
			t.Errorf("%s: the reason makes a trailer of its own:\n%s", name, words)
		}
	}
	if got, want := (Edit{Subject: "a: pause", Says: []string{"paused false -> true"}}).Message("c0ffee", "v1", "the registry is down"), "a: pause\n\npaused false -> true\n\nReason: the registry is down\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestJoin asserts that an edit of several overlays has one subject, and says what concerns which overlay.
func TestJoin(t *testing.T) {
	change := func(path string) []branch.Change { return []branch.Change{{Path: path}} }
	a := Edit{Subject: "a: pause", Says: []string{"paused false -> true"}, Notes: []string{"It ends.", "1 agent is in flight."}, Changes: change("a")}
	b := Edit{Subject: "b: pause", Says: []string{"paused false -> true"}, Notes: []string{"It ends."}, Changes: change("b")}
	want := Edit{
		Subject: "a, b: pause", Says: []string{"a: paused false -> true", "b: paused false -> true"},
		Notes: []string{"It ends.", "a: 1 agent is in flight."}, Changes: append(change("a"), change("b")...),
	}
	if got := Join([]string{"a", "b"}, []Edit{a, b}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := Join([]string{"a"}, []Edit{a}); !reflect.DeepEqual(got, a) {
		t.Errorf("one edit is %+v", got)
	}
	same := Edit{Notes: []string{"It has these values."}}
	if got := Join([]string{"a", "b"}, []Edit{same, b}); got.Subject != "b: pause" || len(got.Changes) != 1 {
		t.Errorf("with an overlay that does not change: %+v", got)
	}
	if got := Join([]string{"a", "b"}, []Edit{same, same}); got.Subject != "" || len(got.Changes) != 0 || len(got.Notes) != 1 {
		t.Errorf("without a change: %+v", got)
	}
	var names []string
	var edits []Edit
	for i := range 20 {
		name := fmt.Sprintf("overlay-%d", i)
		names, edits = append(names, name), append(edits, Edit{Subject: name + ": pause", Changes: change(name)})
	}
	if got := Join(names, edits); got.Subject != "20 overlays: pause" {
		t.Errorf("the subject is %q", got.Subject)
	}
}
