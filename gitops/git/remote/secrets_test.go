package remote

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// TestSecretsInEveryForm has errors that quote a secret as it is, as a URL
// writes it, and where a long text is cut.
func TestSecretsInEveryForm(t *testing.T) {
	const secret = `p ss/"wörd"+&`
	address, err := ParseAddress("https://example.com/x")
	if err != nil {
		t.Fatal(err)
	}
	c := &Connection{Address: address}
	c.Secrets.Add(secret)
	inJSON, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"raw":      secret,
		"query":    url.QueryEscape(secret),
		"path":     url.PathEscape(secret),
		"userinfo": url.UserPassword("robot", secret).String(),
		"quoted":   fmt.Sprintf("%q %+q", secret, secret),
		"json":     string(inJSON),
		"base64":   base64.StdEncoding.EncodeToString([]byte(secret)),
		"cut":      strings.Repeat("x", 595) + secret,
	} {
		shown := c.Fail("reading", fmt.Errorf("server: %w", errors.New(text))).Error()
		for _, part := range []string{"p ss", "p+ss", "p%20ss", "cCBzc"} {
			if strings.Contains(shown, part) {
				t.Errorf("%s: the secret is shown: %s", name, shown)
			}
		}
		if name != "cut" && !strings.Contains(shown, "[secret]") {
			t.Errorf("%s: nothing is censored: %s", name, shown)
		}
	}
}

// TestSecretsAreFew keeps the last ones.
func TestSecretsAreFew(t *testing.T) {
	var s secrets
	for i := range 20 {
		s.Add(fmt.Sprintf("secret-%02d", i))
		s.Add("")
	}
	if got := s.censor("secret-19 secret-12 plain"); got != "[secret] [secret] plain" {
		t.Errorf("censored %q", got)
	}
	if len(s.list) > 8 {
		t.Errorf("%d secrets are kept", len(s.list))
	}
}
