package git

import (
	"errors"
	"net/http"
	"testing"

	"muster/gitops/git/remote"
)

// TestComparesOnly: what servers say of a branch that has moved is told from a refusal.
func TestComparesOnly(t *testing.T) {
	for words, want := range map[string]bool{
		"command error on refs/heads/main: failed to update ref":                        true, // git to 2.49
		"command error on refs/heads/main: incorrect old value provided":                true, // git from 2.50
		"command error on refs/heads/main: atomic transaction failed":                   true,
		"command error on refs/heads/main: invalid old id sent":                         true, // JGit
		"command error on refs/heads/main: cannot lock ref 'refs/heads/main': is at 12": true,
		"command error on refs/heads/main: pre-receive hook declined":                   false,
		"command error on refs/heads/main: hook declined":                               false,
		"command error on refs/heads/main: protected branch hook declined":              false,
		"command error on refs/heads/main: deny updating a hidden ref":                  false,
		"the server did not say what became of the push":                                false,
	} {
		if got := comparesOnly(errors.New(words)); got != want {
			t.Errorf("%s: %t", words, got)
		}
	}
	if comparesOnly(&remote.Answer{Status: http.StatusForbidden, Words: "failed to update ref"}) {
		t.Error("a status of HTTP's is no comparison")
	}
}
