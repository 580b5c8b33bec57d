package branch

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
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
