package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
)

// digest returns HMAC-SHA256 of the concatenated parts.
func digest(secret []byte, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, secret)
	for _, p := range parts {
		mac.Write(p)
	}
	return mac.Sum(nil)
}

// equalDigest compares a digest with one in hexadecimal, in constant time.
func equalDigest(want []byte, given string) bool {
	sum, _ := hex.DecodeString(given)
	return hmac.Equal(want, sum)
}

// signedBy reports whether the header of a git host has the digest of a text. Of a form, GitHub signs
// the body, and Gitea and Gogs sign the payload.
func signedBy(header http.Header, h host, text, secret []byte) bool {
	given, prefixed := strings.CutPrefix(header.Get(h.signature), h.prefix)
	return h.signature != "" && prefixed && equalDigest(digest(secret, text), given)
}

// signedByStandard reports whether a body is signed as Standard Webhooks specifies
// (standard-webhooks/standard-webhooks spec/standard-webhooks.md), and returns the signed time.
// GitLab's signing tokens sign so (gitlab.com/gitlab-org/gitlab merge request 230944).
func signedByStandard(header http.Header, body, secret []byte) (timestamp string, ok bool) {
	all := header.Get("Webhook-Signature")
	if all == "" {
		return "", false
	}
	if text, prefixed := strings.CutPrefix(string(secret), "whsec_"); prefixed {
		if key, err := base64.StdEncoding.DecodeString(text); err == nil && len(key) > 0 {
			secret = key
		}
	}
	id, timestamp := header.Get("Webhook-Id"), header.Get("Webhook-Timestamp")
	sum := digest(secret, []byte(id+"."+timestamp+"."), body)
	for given := range strings.FieldsSeq(all) { // one for each of several secrets
		given, version1 := strings.CutPrefix(given, "v1,")
		if key, err := base64.StdEncoding.DecodeString(given); version1 && err == nil && hmac.Equal(sum, key) {
			return timestamp, true
		}
	}
	return "", false
}

// equalToken compares a token with the secret, in a time that depends on its length only.
func equalToken(secret []byte, given string) bool {
	a, b := sha256.Sum256(secret), sha256.Sum256([]byte(given))
	return hmac.Equal(a[:], b[:])
}

// stamped returns the parts of Buildkite's header, such as
// "timestamp=1769000000,signature=6f...". An absent part is empty.
func stamped(header string) (timestamp, signature string) {
	for part := range strings.SplitSeq(header, ",") {
		switch name, value, _ := strings.Cut(strings.TrimSpace(part), "="); name {
		case "timestamp":
			timestamp = value
		case "signature":
			signature = value
		}
	}
	return timestamp, signature
}
