package manual

import (
	"strings"
	"testing"

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
