package invocation

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"muster/cmd/output"

	"github.com/spf13/cobra"
)

// Buildkite are the flags of an organisation and its API token.
type Buildkite struct {
	Program Program

	Org, URL, TokenFile string
}

// AddTo adds the flags.
func (b *Buildkite) AddTo(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&b.Org, "buildkite-org", "", "slug of the organisation in Buildkite")
	f.StringVar(&b.URL, "buildkite-url", "https://api.buildkite.com/", "Buildkite REST API URL")
	f.StringVar(&b.TokenFile, "buildkite-token-file", "", "file with the API access token, read each time that it is needed; or set "+VariableToken)
}

// RequireOrg returns an error if no organisation is given.
func (b *Buildkite) RequireOrg() error {
	if b.Org == "" {
		return output.Usage(errors.New("which organisation? give --buildkite-org or set MUSTER_BUILDKITE_ORG"))
	}
	return nil
}

// Token returns the source of the API token. It reads a file each time, so that a rotated token needs no restart.
func (b *Buildkite) Token() (func() (string, error), error) {
	fixed := b.Program.Variable(VariableToken)
	switch {
	case b.TokenFile != "" && fixed != "":
		return nil, output.Usage(fmt.Errorf("the Buildkite token is given by %s and --buildkite-token-file: keep one", VariableToken))
	case b.TokenFile == "" && fixed == "" && b.Program.Variable(VariableAgentToken) != "":
		return nil, output.Usage(fmt.Errorf("no Buildkite API token: %s is the agents' token, not the API's; set %s or give --buildkite-token-file", VariableAgentToken, VariableToken))
	case b.TokenFile == "" && fixed == "":
		return nil, output.Usage(fmt.Errorf("no Buildkite token: set %s or give --buildkite-token-file", VariableToken))
	case b.TokenFile == "":
		return func() (string, error) { return fixed, nil }, nil
	}
	read := func() (string, error) { return ReadSecret("Buildkite's token", b.TokenFile) }
	_, err := read()
	return read, output.Usage(err)
}

// AgentTokens returns a function for each agent token, which reads it, and the first error of reading them now. The
// values are file names, separated by spaces.
func AgentTokens(values []string) (all []func() (string, error), err error) {
	for _, value := range values {
		for file := range strings.FieldsSeq(value) {
			read := func() (string, error) { return ReadSecret("the agent token", file) }
			if _, unreadable := read(); err == nil {
				err = output.Usage(unreadable)
			}
			all = append(all, read)
		}
	}
	return all, err
}

// ReadSecret returns the content of a file without surrounding space.
func ReadSecret(what, file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", what, err)
	}
	if secret := strings.TrimSpace(string(text)); secret != "" {
		return secret, nil
	}
	return "", fmt.Errorf("reading %s: %s is empty", what, file)
}
