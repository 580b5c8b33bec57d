package branch

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"unicode"
)

// Censor replaces every secret in text, also as encoded in URLs, headers, JSON and quotes. Empty
// secrets are ignored.
func Censor(text string, secrets ...string) string {
	for _, secret := range secrets {
		if secret == "" {
			continue
		}
		for _, form := range forms(secret) {
			text = strings.ReplaceAll(text, form, "[secret]")
		}
	}
	return text
}

// OneLine returns text of others in one line of at most most bytes and an ellipsis, without secrets and without
// control and format characters.
func OneLine(text string, most int, secrets ...string) string {
	text = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || unicode.Is(unicode.Cf, c) { // Cf reverses or hides text
			return ' '
		}
		return c
	}, Censor(text, secrets...)) // before the cut, which could leave half of a secret
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// forms returns the encodings of a secret.
func forms(secret string) []string {
	inJSON, _ := json.Marshal(secret) // text can always be written
	return []string{
		secret, trimmed(strconv.Quote(secret)), trimmed(strconv.QuoteToASCII(secret)), trimmed(string(inJSON)),
		url.QueryEscape(secret), url.PathEscape(secret), url.UserPassword("", secret).String()[1:],
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.URLEncoding.EncodeToString([]byte(secret)),
		hex.EncodeToString([]byte(secret)),
	}
}

// trimmed returns a quoted text without its quotes.
func trimmed(quoted string) string { return quoted[1 : len(quoted)-1] }
