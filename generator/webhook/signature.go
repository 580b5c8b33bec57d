package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
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

// recent reports whether a time in seconds differs from now by at most MaxAge.
func recent(timestamp string, now time.Time) bool {
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		return false
	}
	age := now.Unix() - seconds
	const most = int64(MaxAge / time.Second)
	return age >= -most && age <= most
}

// maxSeen is the minimum number of digests that are stored. The maximum is twice as large.
const maxSeen = 8192

// seen stores digests as long as their requests are recent, in two halves. It drops
// the older half when the younger is old or full, so that it takes at most a megabyte. A flood
// of authentic events can make it drop digests that are still recent: a replayed event then
// triggers one more tick. The zero value is empty.
type seen struct {
	young, old map[[16]byte]bool
	since      time.Time // when the younger half was started
}

// add stores a digest and reports whether it is new.
func (s *seen) add(sum []byte, now time.Time) bool {
	if age := now.Sub(s.since); s.young == nil || len(s.young) >= maxSeen || age >= 2*MaxAge || age < -2*MaxAge {
		s.young, s.old, s.since = map[[16]byte]bool{}, s.young, now
	}
	key := [16]byte(sum[:16])
	if s.young[key] || s.old[key] {
		return false
	}
	s.young[key] = true
	return true
}
