// Package leaktest finds what output, logs, commits and requests of muster must never contain:
// credentials, control characters, mentions. Tests use its credentials and search all output for
// them. It is for tests only.
package leaktest

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The credentials of tests. None is real.
const (
	BuildkiteToken = "bkua_canary00c0ffee00c0ffee00c0ffee00c0ffee00"
	AgentToken     = "bkct_canary11c0ffee11c0ffee11c0ffee11c0ffee11"
	GitHubToken    = "ghp_canary22c0ffee22c0ffee22c0ffee22c0"
	// GitPassword has characters that URLs, shells and JSON escape.
	GitPassword = `canary33 p&ss/"wörd"+%`
	// SSHKey is a line of a private key.
	SSHKey = "b3BlbnNzaC1jYW5hcnkta2V5LXYxAAAAAGNhbmFyeTQ0Y2FuYXJ5NDQ"
)

// Secrets returns all credentials, by their names in findings.
func Secrets() map[string]string {
	return map[string]string{
		"Buildkite's token": BuildkiteToken, "the agents' token": AgentToken, "GitHub's token": GitHubToken,
		"the password for git": GitPassword, "the ssh key": SSHKey,
	}
}

// Hostile is a text with control sequences of terminals, bidirectional and invisible characters, a
// mention, and an order to close an issue. It is escaped for double quotes in JSON and YAML.
const Hostile = `\u001b]0;x\u0007\u001b[31m\u009b31m\u202e\u2066\u200b\ufeff\u2028\u007f @canary-team fixes acme/canary#1`

// Words returns Hostile without escapes.
func Words() string {
	var text string
	if err := json.Unmarshal([]byte(`"`+Hostile+`"`), &text); err != nil {
		panic(err)
	}
	return text
}

// Leaks finds credentials in a text, in every encoding.
func Leaks(text string) []string {
	var found []string
	for name, secret := range Secrets() {
		for form, written := range forms(secret) {
			if strings.Contains(text, written) {
				found = append(found, fmt.Sprintf("%s, %s", name, form))
			}
		}
	}
	return found
}

func forms(secret string) map[string]string {
	quoted := strconv.Quote(secret)
	inJSON, _ := json.Marshal(secret) // text can always be written
	return map[string]string{
		"as it is":      secret,
		"quoted":        quoted[1 : len(quoted)-1],
		"in JSON":       string(inJSON[1 : len(inJSON)-1]),
		"in a query":    url.QueryEscape(secret),
		"in a path":     url.PathEscape(secret),
		"in an address": url.UserPassword("", secret).String()[1:],
		"in base64":     base64.StdEncoding.EncodeToString([]byte(secret)),
		"as basic auth": base64.StdEncoding.EncodeToString([]byte("git:" + secret)),
		"in hex":        hex.EncodeToString([]byte(secret)),
		"its beginning": secret[:10],
	}
}

// Controls finds characters that a terminal does not print, except line breaks, tabs and joiners.
func Controls(text string) []string {
	const nonJoiner, joiner = 0x200c, 0x200d
	if !utf8.ValidString(text) {
		return []string{"bytes that are no UTF-8"}
	}
	var found []string
	for _, c := range text {
		switch {
		case c == '\n' || c == '\t' || c == nonJoiner || c == joiner:
		case unicode.IsControl(c) || unicode.In(c, unicode.Cf, unicode.Zl, unicode.Zp):
			found = append(found, fmt.Sprintf("%U", c))
		}
	}
	return found
}

// mention matches a mention of a person or group on git hosts and in chats (on github.com, a name
// after an @ that no word precedes). closing matches keywords that close an issue on git hosts.
var (
	mention = regexp.MustCompile(`(^|[^\pL\pN_.])@[\pL\pN_]`)
	closing = regexp.MustCompile(`(?i)(close[sd]?|fix(es|ed)?|resolve[sd]?):? +([\w./-]*#[0-9]|https?://)`)
)

// Printed finds everything that output and logs must not contain.
func Printed(text string) []string {
	return slices.Concat(Leaks(text), Controls(text), mention.FindAllString(text, -1))
}

// Committed finds everything that a commit message must not contain: what [Printed] finds, and
// orders to close an issue.
func Committed(text string) []string {
	return append(Printed(text), closing.FindAllString(text, -1)...)
}
