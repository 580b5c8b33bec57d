package webhook

import (
	"strconv"
	"time"
)

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

// isNew stores a digest and reports whether it is new.
func (r *Receiver) isNew(sum []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen.add(sum, r.cfg.Now())
}
