package remote

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"muster/gitops/branch"
	"muster/gitops/leaktest"
)

// TestSecretsAreCensoredBeforeTheCut has an error whose text ends within a secret.
func TestSecretsAreCensoredBeforeTheCut(t *testing.T) {
	address, err := branch.ParseAddress("https://example.com/x")
	if err != nil {
		t.Fatal(err)
	}
	c := &Connection{Address: address}
	c.Secrets.Add(leaktest.GitPassword)
	shown := c.Fail("reading", errors.New(strings.Repeat("x", 595)+leaktest.GitPassword)).Error()
	if strings.Contains(shown, leaktest.GitPassword[:3]) {
		t.Errorf("the secret is shown: %s", shown)
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
