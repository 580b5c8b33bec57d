package generator

import (
	"context"
	"errors"
	"log/slog"
	"muster/generator/plan"
	"regexp"
	"slices"
	"time"
)

// troubles are the problems that were seen lately. Each is logged when it begins
// and when it is over, and in between hardly: a day of trouble is a few lines.
// The zero value is none.
type troubles struct {
	known []trouble
}

// trouble is one problem, and what was said of it.
type trouble struct {
	Problem
	seen time.Time // last
	said time.Time // when there was last a line of it that was not about its end
	over time.Time // when it was said to be over; zero: it is not
	// ticks is how many have shown it since it began, and gone reports that the last
	// one did not.
	ticks int
	gone  bool
	// again says that it came back soon after it was over: its end is not said
	// until it stays away.
	again bool
}

const (
	// awayFor is how long a problem that comes and goes must stay away to be over,
	// and how long one that is over is remembered.
	awayFor = 10 * time.Minute
	// newsEvery is how often at most a problem is logged again because its words
	// have changed, and remindEvery how often because ticks still fail.
	newsEvery   = 10 * time.Minute
	remindEvery = time.Hour
)

// update brings the troubles in line with the problems that a tick has shown,
// and logs what that changes. It cannot be told whether those for which stays is
// true are over.
func (t *troubles) update(log *slog.Logger, now time.Time, shown []Problem, stays func(Problem) bool) {
	for _, p := range shown {
		t.saw(log, now, p)
	}
	t.known = slices.DeleteFunc(t.known, func(k trouble) bool { return !k.over.IsZero() && now.Sub(k.over) >= awayFor })
	for i := range t.known {
		k := &t.known[i]
		if k.in(shown) || !k.over.IsZero() || stays(k.Problem) {
			continue
		}
		k.gone = true
		if k.again && now.Sub(k.seen) < awayFor {
			continue
		}
		k.over = now
		attrs := append(k.attrs(), lasted(now.Sub(k.Since)))
		if k.step != "" {
			attrs = append(attrs, slog.Int("ticks", k.ticks))
		}
		log.LogAttrs(context.Background(), slog.LevelInfo, "resolved: "+k.Text, attrs...)
	}
}

// saw notes a problem, and logs it when it begins, or has news.
func (t *troubles) saw(log *slog.Logger, now time.Time, p Problem) {
	i := slices.IndexFunc(t.known, func(k trouble) bool { return k.same(p) })
	if i < 0 {
		i = len(t.known)
		p.Since = now
		t.known = append(t.known, trouble{Problem: p})
	}
	k := &t.known[i]
	says := k.said.IsZero()
	if !k.over.IsZero() {
		says, k.again, k.over, k.Since, k.ticks = true, true, time.Time{}, now, 0
	}
	quiet := now.Sub(k.said)
	says = says || k.words != p.words && quiet >= newsEvery || p.step != "" && quiet >= remindEvery
	k.seen, k.gone, k.more, k.news = now, false, p.more, p.news
	k.ticks++
	if !says {
		return
	}
	k.said, k.words = now, p.words
	attrs := append(k.attrs(), k.more...)
	if k.ticks > 1 {
		attrs = append(attrs, slog.Time("since", k.Since), slog.Int("ticks", k.ticks))
	}
	log.LogAttrs(context.Background(), p.Level, p.Text, attrs...)
}

// current are the problems that the last ticks have shown, the oldest first.
func (t *troubles) current() []Problem {
	var all []Problem
	for _, k := range t.known {
		if k.over.IsZero() && !k.gone {
			all = append(all, k.Problem)
		}
	}
	slices.SortStableFunc(all, func(a, b Problem) int { return a.Since.Compare(b.Since) })
	return all
}

// lasted is the attribute that says how long something took.
func lasted(d time.Duration) slog.Attr {
	return slog.Duration("duration", d.Round(time.Millisecond))
}

// reportTick logs what a tick did, and what began to be wrong or is over.
func (g *Generator) reportTick(r Result, err error, took time.Duration) {
	g.reportStretch(err)
	now := g.cfg.Clock.Now()
	var wait plan.SpreadError
	switch {
	case errors.As(err, &wait): // nothing is wrong; what was wrong before may go on
	case err != nil:
		failed := failure(g.progress.failed, err, took)
		g.troubles.update(g.cfg.Log, now, []Problem{failed}, func(p Problem) bool {
			return p.step == "" || slices.Index(Steps(), p.step) > slices.Index(Steps(), failed.step)
		})
	default:
		found := problems(r)
		rest := lasting(g.troubles.current(), found, r)
		g.troubles.update(g.cfg.Log, now, found, func(p Problem) bool { return p.in(rest) })
	}
	if err == nil || len(r.Acts)+len(r.Landed) > 0 {
		g.reportActs(r, took)
	}
}

// digits are what differs in the words of an error that is the same.
var digits = regexp.MustCompile(`[0-9]+`)

// failure is the problem that a tick failed in a step.
func failure(step Step, err error, took time.Duration) Problem {
	p := Problem{Level: slog.LevelError, Text: "tick failed", Reason: string(step), step: step, news: err.Error(), words: digits.ReplaceAllString(err.Error(), "0")}
	var refused plan.RetryError
	switch {
	case errors.Is(err, ErrRaces): // nothing is wrong
		p.Level, p.Reason, p.step = slog.LevelWarn, string(Raced), StepCommit
	case errors.As(err, &refused):
		p.Level, p.Reason = slog.LevelWarn, string(Limited)
	}
	p.more = []slog.Attr{slog.String("err", err.Error()), lasted(took)}
	return p
}
