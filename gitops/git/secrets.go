package git

import (
	"slices"

	"muster/gitops/secret"
)

// secrets are the passwords and tokens in use, which neither errors nor logs
// may show.
type secrets struct {
	list []string
	// address are those in the address, which are never forgotten.
	address []string
}

// add makes a secret one that is censored from now on. The last few are
// enough: an error speaks of the connection it came from.
func (s *secrets) add(text string) {
	const most = 8
	if text == "" || slices.Contains(s.list, text) {
		return
	}
	if len(s.list) == most {
		s.list = s.list[1:]
	}
	s.list = append(s.list, text)
}

// censor replaces every secret in text; see [secret.Censor].
func (s *secrets) censor(text string) string {
	return secret.Censor(text, slices.Concat(s.list, s.address)...)
}
