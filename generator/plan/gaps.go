package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// idleTimes are the idle times between which "idle: auto" chooses, in ascending order. The first is the default interval
// between ticks, so that muster sees each agent before it exits. With ten seconds, 100 simulated organisations use 2 %
// fewer pod-hours, but at 50 requests a minute muster misses agents, and a few jobs wait for minutes.
var idleTimes = [...]time.Duration{FirstIdle, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute}

const (
	// FirstIdle is the shortest idle time, and the one until MinGaps gaps and [MinStartupTimes] start-up times are known.
	FirstIdle = 15 * time.Second
	// MinGaps is how many gaps must be known before decisions depend on them.
	MinGaps = 10
	// maxGaps is how many gaps are kept: above it all counts are halved, so that the latest count most.
	maxGaps = 400
)

// Gaps counts the gaps between jobs: the times from the end of a job until another job needs an agent. A gap is counted
// by the shortest of the idle times that is not below it, or as longer than all of them. The zero value has none. Its
// text form lists the counts, as in "12 3 0 1 0 7".
type Gaps struct{ counts [len(idleTimes) + 1]int }

// add counts n gaps of a length.
func (g *Gaps) add(length time.Duration, n int) {
	i := 0
	for i < len(idleTimes) && length > idleTimes[i] {
		i++
	}
	g.counts[i] += n
}

// Len returns the number of gaps.
func (g Gaps) Len() (n int) {
	for _, c := range g.counts {
		n += c
	}
	return n
}

// Within returns the number of gaps that an idle time covers.
func (g Gaps) Within(idle time.Duration) (n int) {
	for i, t := range idleTimes {
		if t <= idle {
			n += g.counts[i]
		}
	}
	return n
}

// learn returns the gaps with more added, halved until there are at most maxGaps.
func (g Gaps) learn(more Gaps) Gaps {
	for i, n := range more.counts {
		g.counts[i] += n
	}
	for g.Len() > maxGaps {
		for i := range g.counts {
			g.counts[i] /= 2
		}
	}
	return g
}

// idle returns the idle time below the uptime with the highest value in agent time. A gap that it covers saves a
// start-up, and a job's wait for it, which counts half; it costs the gap. Every other gap costs the idle time.
func (g Gaps) idle(startup, uptime time.Duration) time.Duration {
	best, most := time.Duration(0), 0
	for i, t := range idleTimes {
		value := 0 // in seconds, so that no count of a file overflows it
		for k, n := range g.counts {
			if k <= i {
				value += n * (int((startup+startup/2)/time.Second) - int(idleTimes[k]/time.Second))
			} else {
				value -= n * int(t/time.Second)
			}
		}
		if i == 0 || value > most && t < uptime {
			best, most = t, value
		}
	}
	return best
}

// IsZero reports whether none is counted.
func (g Gaps) IsZero() bool { return g == Gaps{} }

// Equal reports whether two values are equal.
func (g Gaps) Equal(other Gaps) bool { return g == other }

// String lists the counts; none is "".
func (g Gaps) String() string {
	if g.IsZero() {
		return ""
	}
	return strings.Trim(fmt.Sprint(g.counts), "[]")
}

// MarshalText returns [Gaps.String].
func (g Gaps) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText parses the format of [Gaps.String], with at most [MaxIndex] of each count.
func (g *Gaps) UnmarshalText(text []byte) error {
	*g = Gaps{}
	parts := strings.Fields(string(text))
	if len(parts) != 0 && len(parts) != len(g.counts) {
		return fmt.Errorf("gaps %.80q: not %d numbers", text, len(g.counts))
	}
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 || n > MaxIndex {
			return fmt.Errorf("gaps %.80q: %.40q is not a number from 0 to %d", text, part, MaxIndex)
		}
		g.counts[i] = n
	}
	return nil
}

// trace is how many agents the jobs of an overlay needed at the last tick, and the latest gaps between them. A restart
// loses those that no commit has stored.
type trace struct {
	at     time.Time // of the last tick
	agents int
	open   []openGap // oldest first
	gaps   []gap     // oldest first
}

// openGap is a number of agents that no job has needed since a time.
type openGap struct {
	since  time.Time
	agents int
}

// gap is a number of gaps that ended together.
type gap struct {
	end    time.Time
	length time.Duration
	n      int
}

// NoteDemand adds how many agents jobs need according to the decisions of a tick, in overlays whose idle time depends
// on it, and forgets other overlays.
func (r *Registrations) NoteDemand(overlays []Overlay, decisions []Decision) {
	learned := map[string]time.Time{}
	for i := range overlays {
		if o := &overlays[i]; o.Policy.Reuse.Auto {
			learned[o.Name] = o.State.GapsUntil
		}
	}
	before := r.traces
	r.traces = make(map[string]*trace, len(learned))
	for _, d := range decisions {
		until, ok := learned[d.Overlay]
		if !ok {
			continue
		}
		t := before[d.Overlay]
		if t == nil {
			t = &trace{}
		}
		t.gaps = slices.DeleteFunc(t.gaps, func(g gap) bool { return g.end.Before(until) })
		t.note(d.At(), min(d.Figures.Max, d.Figures.Busy+d.Figures.Pending-d.Figures.OtherOverlays))
		r.traces[d.Overlay] = t
	}
}

// note records the number of agents that jobs need at a tick. Which agent a job takes is unknown: here it is the one
// that was needed last. A gap begins at the tick before the one that shows it, and so is never too short.
func (t *trace) note(now time.Time, agents int) {
	before, more := t.at, agents-t.agents
	t.at, t.agents = now, agents
	longest := idleTimes[len(idleTimes)-1]
	if before.IsZero() || now.Sub(before) > longest { // gaps before, or in an outage, are unknown
		t.open = nil
		return
	}
	if more < 0 {
		t.open = append(t.open, openGap{before, -more})
	}
	for more > 0 && len(t.open) > 0 {
		last := &t.open[len(t.open)-1]
		n := min(more, last.agents)
		t.gaps = append(t.gaps, gap{now, now.Sub(last.since), n})
		more -= n
		if last.agents -= n; last.agents == 0 {
			t.open = t.open[:len(t.open)-1]
		}
	}
	for len(t.open) > 0 && now.Sub(t.open[0].since) > longest {
		t.gaps = append(t.gaps, gap{now, longest + 1, t.open[0].agents})
		t.open = t.open[1:]
	}
	t.gaps = t.gaps[max(0, len(t.gaps)-maxGaps):]
}

// gapsUntil returns the gaps that ended before a time and that the overlay's state does not contain.
func (r *Registrations) gapsUntil(o Overlay, at time.Time) Gaps {
	var g Gaps
	if t := r.traces[o.Name]; t != nil && o.Policy.Reuse.Auto {
		for _, gap := range t.gaps {
			if !gap.end.Before(o.State.GapsUntil) && gap.end.Before(at) {
				g.add(gap.length, gap.n)
			}
		}
	}
	return Gaps{}.learn(g)
}
