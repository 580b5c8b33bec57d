package status

import (
	"fmt"
	"strings"
	"time"

	"muster/generator/plan"
)

// Stuck returns why the loop of ticks is presumed to hang. It returns an empty string as long
// as the current tick takes, or the next one is overdue by, at most Interval plus Longest of
// [Config].
func (s Snapshot) Stuck(now time.Time) string {
	from, doing := s.Started, "no tick has begun since the start"
	switch t := s.Tick; {
	case t.Running:
		from, doing = t.Began, "a tick has been under way"
	case t.Count > 0:
		from, doing = t.Next, "the next tick is overdue"
	}
	if over := now.Sub(from); over > s.interval+s.longest {
		return fmt.Sprintf("%s for %s; at most %s is normal", doing, over.Round(time.Second), s.interval+s.longest)
	}
	return ""
}

// NotReady lists what stands in the way of scaling, a line for each thing; empty
// when nothing does. Git and Buildkite must both have answered within two
// intervals, the git server must not have refused the last push, and no overlay may be
// invalid. An interval is the time from tick to tick as it is: a tick that takes longer
// makes it longer.
func (s Snapshot) NotReady(now time.Time) []string {
	all := s.Silent(now)
	if s.PushRefused != "" {
		all = append(all, strings.ReplaceAll(s.PushRefused, "\n", " | "))
	}
	for _, o := range s.Overlays {
		if o.Suspended.Code == plan.Invalid {
			all = append(all, fmt.Sprintf("overlay %s is %s", o.Name, o.Why))
		}
	}
	return all
}

// Silent lists which of git and Buildkite have not answered lately, and why, a
// line for each.
func (s Snapshot) Silent(now time.Time) []string {
	return append(s.Git.silent("git", now), s.Buildkite.silent("Buildkite", now)...)
}

// Fresh reports whether the figures are those of now: git and Buildkite answer.
func (s Snapshot) Fresh(now time.Time) bool { return len(s.Silent(now)) == 0 }

func (c Contact) silent(name string, now time.Time) []string {
	if !c.Answered.IsZero() && !now.After(c.until) {
		return nil
	}
	text := name + " has not answered yet"
	if !c.Answered.IsZero() {
		text = fmt.Sprintf("%s has not answered for %s", name, now.Sub(c.Answered).Round(time.Second))
	}
	if c.Problem != "" {
		text += ": " + strings.ReplaceAll(c.Problem, "\n", " | ")
	}
	return []string{text}
}

// Interval is the time from tick to tick, as configured.
func (s Snapshot) Interval() time.Duration { return s.interval }
