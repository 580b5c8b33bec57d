package git

import (
	"net/url"
	"slices"
	"strings"
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
func (s *secrets) add(secret string) {
	const most = 8
	if secret == "" || slices.Contains(s.list, secret) {
		return
	}
	if len(s.list) == most {
		s.list = s.list[1:]
	}
	s.list = append(s.list, secret)
}

// censor replaces every secret in text, also in the forms that a URL gives it.
func (s *secrets) censor(text string) string {
	for _, secret := range slices.Concat(s.list, s.address) {
		for _, form := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret), url.UserPassword("", secret).String()[1:]} {
			text = strings.ReplaceAll(text, form, "[secret]")
		}
	}
	return text
}
