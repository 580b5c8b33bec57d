package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
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
