package generator

import (
	"context"
	"log/slog"
	"slices"
	"time"
)

// problemLog contains the recent problems. Each is logged when it begins and when it ends,
// and rarely in between: a day of problems is a few lines. The zero value is empty.
type problemLog struct {
	known []problemState
}

// problemState is one problem, and what the log contains about it.
type problemState struct {
	problem
	seen   time.Time // last
	logged time.Time // when there was last a line of it that was not about its end
	over   time.Time // when its end was logged; zero: not ended
	// ticks is how many have shown it since it began, and ended reports that the last
	// one did not.
	ticks       int
	ended       bool
	since       time.Time // when it began
	loggedWords string    // of the last line
	// recurred says that it came back soon after it was over: its end is not said
	// until it stays away.
	recurred bool
}

const (
	// forgetAfter is how long a problem that comes and goes must stay away to be over,
	// and how long one that is over is remembered.
	forgetAfter = 10 * time.Minute
	// newsEvery is how often at most a problem is logged again because its words
	// have changed, and remindEvery how often because ticks still fail.
	newsEvery   = 10 * time.Minute
	remindEvery = time.Hour
)

// update applies the problems that a tick has shown to the problem log, and logs the changes.
// Problems for which stays returns true may or may not be over.
func (t *problemLog) update(log *slog.Logger, now time.Time, shown []problem, stays func(problemState) bool) {
	for _, p := range shown {
		t.saw(log, now, p)
	}
	t.known = slices.DeleteFunc(t.known, func(k problemState) bool { return !k.over.IsZero() && now.Sub(k.over) >= forgetAfter })
	for i := range t.known {
		k := &t.known[i]
		if k.in(shown) || !k.over.IsZero() || stays(*k) {
			continue
		}
		k.ended = true
		if k.recurred && now.Sub(k.seen) < forgetAfter {
			continue
		}
		k.over = now
		attrs := append(k.attrs(), lasted(now.Sub(k.since)))
		if k.step != "" {
			attrs = append(attrs, slog.Int("ticks", k.ticks))
		}
		log.LogAttrs(context.Background(), slog.LevelInfo, "resolved: "+k.text(), attrs...)
	}
}

// saw notes a problem, and logs it when it begins, or has news.
func (t *problemLog) saw(log *slog.Logger, now time.Time, p problem) {
	i := slices.IndexFunc(t.known, func(k problemState) bool { return k.same(p) })
	if i < 0 {
		i = len(t.known)
		t.known = append(t.known, problemState{since: now})
	}
	k := &t.known[i]
	begins := k.logged.IsZero()
	if !k.over.IsZero() {
		begins, k.recurred, k.over, k.since, k.ticks = true, true, time.Time{}, now, 0
	}
	quiet := now.Sub(k.logged)
	k.problem, k.seen, k.ended = p, now, false
	k.ticks++
	if !begins && (k.loggedWords == p.words() || quiet < newsEvery) && (p.step == "" || quiet < remindEvery) {
		return
	}
	k.logged, k.loggedWords = now, p.words()
	attrs := append(k.attrs(), k.details()...)
	if k.ticks > 1 {
		attrs = append(attrs, slog.Time("since", k.since), slog.Int("ticks", k.ticks))
	} else if p.Remedy != "" {
		attrs = append(attrs, slog.String("remedy", p.Remedy))
	}
	log.LogAttrs(context.Background(), p.Level(), p.text(), attrs...)
}
