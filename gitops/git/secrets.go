package git

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
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

// censor replaces every secret in text, also in the forms that URLs, headers, JSON
// and quotes give it.
func (s *secrets) censor(text string) string {
	for _, secret := range slices.Concat(s.list, s.address) {
		for _, form := range forms(secret) {
			text = strings.ReplaceAll(text, form, "[secret]")
		}
	}
	return text
}

// forms are the ways in which a text may write a secret.
func forms(secret string) []string {
	inJSON, _ := json.Marshal(secret) // text can always be written
	return []string{
		secret, trimmed(strconv.Quote(secret)), trimmed(strconv.QuoteToASCII(secret)), trimmed(string(inJSON)),
		url.QueryEscape(secret), url.PathEscape(secret), url.UserPassword("", secret).String()[1:],
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.URLEncoding.EncodeToString([]byte(secret)),
	}
}

// trimmed is a quoted text without its quotes.
func trimmed(quoted string) string { return quoted[1 : len(quoted)-1] }
