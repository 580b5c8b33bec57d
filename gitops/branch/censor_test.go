package branch_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"muster/gitops/branch"
	"muster/gitops/leaktest"
)

// TestCensor: nothing is left of a secret, in whatever form a server repeats it.
func TestCensor(t *testing.T) {
	t.Parallel()
	for name, s := range leaktest.Secrets() {
		inJSON, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("%s, %s, %q or %+q", s, inJSON, s, s) +
			strings.Join([]string{url.QueryEscape(s), url.PathEscape(s), url.UserPassword("robot", s).String()}, " and ") +
			base64.StdEncoding.EncodeToString([]byte(s)) + hex.EncodeToString([]byte(s))
		if leaks := leaktest.Leaks(branch.Censor("it said "+text, "", s)); len(leaks) > 0 {
			t.Errorf("%s: %q", name, leaks)
		}
	}
	if got := branch.Censor("unchanged", ""); got != "unchanged" {
		t.Errorf("an empty secret changes the text: %q", got)
	}
}
