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

// TestOneLine asserts that text of others is one line without control characters, and that a secret at its end
// is not cut in half.
func TestOneLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{" a\tb\r\n\x00c\x1b[31m ", 100, "a b c [31m"},
		{"left\u202eright\u200b", 100, "left right"},
		{"\xff", 100, "\ufffd"},
		{"12345678", 8, "12345678"},
		{"123456789", 8, "12345678…"},
		{"1234567ä", 8, "1234567…"},
		{"a " + leaktest.GitHubToken, 12, "a [secret]"},
	} {
		if got := branch.OneLine(c.text, c.most, leaktest.GitHubToken); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}
