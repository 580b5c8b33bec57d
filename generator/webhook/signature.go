package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// digest is HMAC-SHA256 of the parts, one behind the other.
func digest(secret []byte, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, secret)
	for _, p := range parts {
		mac.Write(p)
	}
	return mac.Sum(nil)
}

// equalDigest compares a digest with one in hexadecimal, in the time that any takes.
func equalDigest(want []byte, given string) bool {
	sum, _ := hex.DecodeString(given)
	return hmac.Equal(want, sum)
}

// equalToken compares a token with the secret, in the time that any of its length takes.
func equalToken(secret []byte, given string) bool {
	a, b := sha256.Sum256(secret), sha256.Sum256([]byte(given))
	return hmac.Equal(a[:], b[:])
}

// stamped are the parts of Buildkite's header, as in "timestamp=1769000000,signature=6f...".
// What is not there is empty.
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

// recent reports whether a time in seconds is near enough to now.
func recent(timestamp string, now time.Time) bool {
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		return false
	}
	age := now.Unix() - seconds
	const most = int64(MaxAge / time.Second)
	return age >= -most && age <= most
}

// maxSeen is how many digests are remembered at least, and half of the most.
const maxSeen = 8192

// seen remembers digests for as long as their requests are recent, in two halves. It drops
// the older half when the younger is old or full. So it takes at most a megabyte. A flood of
// authentic events can make it drop digests that are still recent: a replayed event then
// triggers the loop once more. The zero value is empty.
type seen struct {
	young, old map[[16]byte]bool
	since      time.Time // when the younger half was begun
}

// add reports whether a digest is new, and remembers it.
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
