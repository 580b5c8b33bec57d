package leaktest

import (
	"encoding/base64"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"testing"
)

// TestFindings: what the other tests look for would be found.
func TestFindings(t *testing.T) {
	for name, text := range map[string]string{
		"token":    "x" + BuildkiteToken + "y",
		"query":    "?p=" + url.QueryEscape(GitPassword),
		"header":   "Basic " + base64.StdEncoding.EncodeToString([]byte("git:"+GitPassword)),
		"cut":      GitHubToken[:12] + "...",
		"escape":   "a\x1b[31m",
		"carriage": "a\rb",
		"c1":       "\u009b",
		"turned":   "a\u202eb",
		"hidden":   "a\u200bb",
		"invalid":  "\xff",
		"mention":  "thanks @canary",
		"first":    "@canary",
		"quoted":   `"@canary"`,
		"closing":  "Fixes acme/x#1",
		"hostile":  Words(),
	} {
		if len(Committed(text)) == 0 {
			t.Errorf("%s: nothing is found in %q", name, text)
		}
	}
	for _, text := range []string{"", "git@example.com:acme/fleet.git", "Größe\t👩‍👧\n", "tool@v1.2.3 ends", "# a comment", `\u0040canary`, "dispatch 10 agents"} {
		if found := Committed(text); len(found) > 0 {
			t.Errorf("%q: %q", text, found)
		}
	}
}

// TestLog: a credential is found in a message, in an attribute and in one that
// was given before, and the record is handed on.
func TestLog(t *testing.T) {
	var found, log strings.Builder
	l := Log(func(text string) { found.WriteString(text) }, slog.New(slog.NewTextHandler(&log, nil)))
	for name, write := range map[string]func(){
		"message":   func() { l.Info("with " + GitPassword) },
		"attribute": func() { l.Warn("x", "err", errors.New(GitPassword)) },
		"before":    func() { l.With("password", GitPassword).Error("x") },
		"debug":     func() { l.Debug(GitPassword) },
	} {
		found.Reset()
		write()
		if !strings.Contains(found.String(), "password for git") {
			t.Errorf("%s: nothing is found", name)
		}
	}
	found.Reset()
	l.Info("harmless")
	if found.Len() > 0 || strings.Count(log.String(), "\n") != 4 {
		t.Errorf("found %q; the log is %q", found.String(), log.String())
	}
}
