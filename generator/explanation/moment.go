package explanation

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"muster/generator/condition"
	"muster/generator/fleet"
	"muster/generator/history"
	"muster/generator/ledger"
	"muster/generator/plan"
)

// past is the content of the log around a time.
type past struct {
	// at is the newest commit at that time; empty if there was no commit yet.
	at string
	// before and after are the nearest polls of each queue, and last and next the nearest commits of
	// each overlay.
	before, after map[string]*ledger.Operation
	last, next    map[string]*ledger.Operation
	// repairs are the last repairs of each overlay.
	repairs map[string]*ledger.Operation
}

// deepBefore is the maximum number of commits before a time that are searched for the last poll of
// each queue.
const deepBefore = 5000

// around reads the log from its head to some commits before a time: to the last commit of the overlay
// want, if it is not empty.
func (c Config) around(ctx context.Context, at time.Time, want string) (*past, error) {
	p := &past{before: map[string]*ledger.Operation{}, after: map[string]*ledger.Operation{}, last: map[string]*ledger.Operation{}, next: map[string]*ledger.Operation{}, repairs: map[string]*ledger.Operation{}}
	older := 0
	log := func(yield func(ledger.Operation, error) bool) {
		for r, err := range c.log(ctx, "") {
			if err == nil && !r.At.After(at) {
				if older++; p.at == "" {
					p.at = r.ID
				}
			}
			if !yield(r, err) {
				return
			}
		}
	}
	rows := history.Config{Overlays: c.Overlays, Now: c.Now}
	for row, err := range rows.Rows(log) {
		if err != nil {
			return nil, err
		}
		p.note(&row, at)
		_, done := p.last[want]
		if want != "" && done && row.At.Before(at.Add(-condition.RepairShown)) || older > deepBefore {
			break
		}
	}
	return p, ctx.Err()
}

// note adds one of muster's commits.
func (p *past) note(row *ledger.Operation, at time.Time) {
	polled := row.Kind != ledger.Repair // which is made before the poll
	switch {
	case !row.ByMuster(): // damaged
		return
	case row.At.After(at):
		if p.next[row.Overlay] = row; polled {
			p.after[row.Queue] = row
		}
		return
	}
	if p.before[row.Queue] == nil && polled {
		p.before[row.Queue] = row
	}
	if row.Kind == ledger.Repair && p.repairs[row.Overlay] == nil {
		p.repairs[row.Overlay] = row
	}
	if last := p.last[row.Overlay]; last == nil || row.At.Equal(at) && row.Kind == ledger.Dispatch { // prefer the order of a tick
		p.last[row.Overlay] = row
	}
}

// moments explains why nothing was done at a time for an overlay, or for each overlay if name is empty.
// It explains the commit of that time, if there is one.
func (c Config) moments(ctx context.Context, name string, at time.Time) ([]Explanation, error) {
	if at.IsZero() {
		at = c.Now
	}
	at = at.UTC().Truncate(time.Second)
	p, err := c.around(ctx, at, name)
	if err != nil {
		return nil, err
	}
	if p.at == "" {
		return nil, &Before{At: at}
	}
	overlays, err := c.replay().Load(ctx, p.at, names(name, p))
	if err != nil {
		return nil, err
	}
	if name != "" && !slices.ContainsFunc(overlays, func(o fleet.Overlay) bool { return o.Name == name }) {
		return c.absent(ctx, name, at, p)
	}
	var all []Explanation
	for i := range overlays {
		if name != "" && overlays[i].Name != name {
			continue
		}
		x, err := c.moment(ctx, &overlays[i], overlays, at, p)
		if err != nil {
			return nil, err
		}
		all = append(all, x)
	}
	return all, nil
}

// Before is the error if a time is before the first commit.
type Before struct{ At time.Time }

// Error implements the error interface.
func (b *Before) Error() string {
	return fmt.Sprintf("no commit is as old as %s: the history of this clone begins later", b.At.Format(time.RFC3339))
}

// names returns the overlays to read: the named one, and those that serve its queue with it
// according to the log. An empty result selects all.
func names(name string, p *past) []string {
	if name == "" {
		return nil
	}
	all := []string{name}
	for _, polls := range []map[string]*ledger.Operation{p.before, p.after} {
		for _, e := range polls {
			mine := slices.ContainsFunc(e.Observation.Overlays, func(s plan.Capacity) bool { return s.Overlay == name })
			for _, s := range e.Observation.Overlays {
				if mine && fs.ValidPath(s.Overlay) && s.Overlay != "." {
					all = append(all, s.Overlay)
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// absent explains that an overlay of the log did not exist at a time.
func (c Config) absent(ctx context.Context, name string, at time.Time, p *past) ([]Explanation, error) {
	x := Explanation{Subject: fmt.Sprintf("%s at %s: the overlay did not exist", name, at.Format(time.RFC3339)), At: at, Overlay: name,
		Why: []string{fmt.Sprintf("Commit %.7s, the newest at that time, contains no policy of it.", p.at)}}
	switch next, last := p.next[name], p.last[name]; {
	case next != nil:
		x.Timeline = []Event{{At: next.At, What: fmt.Sprintf("muster's first commit for it after that: %s, commit %.7s", next.Kind, next.ID)}}
	case last != nil:
		x.Timeline = []Event{{At: last.At, What: fmt.Sprintf("muster's last commit for it before that: %s, commit %.7s", last.Kind, last.ID)}}
	default:
		overlays, err := c.replay().Load(ctx, p.at, nil)
		if err != nil {
			return nil, err
		}
		unknown := &Unknown{Name: name}
		for i := range overlays {
			unknown.Known = append(unknown.Known, overlays[i].Name)
		}
		return nil, unknown
	}
	return []Explanation{x}, nil
}

// moment explains one overlay at a time.
func (c Config) moment(ctx context.Context, o *fleet.Overlay, all []fleet.Overlay, at time.Time, p *past) (Explanation, error) {
	m := situation{overlay: o, at: at, before: p.before[o.Policy.Queue], after: p.after[o.Policy.Queue], repair: p.repairs[o.Name]}
	m.decide(p.at, all)
	x := Explanation{Subject: fmt.Sprintf("%s at %s: why nothing was done", o.Name, at.Format(time.RFC3339)), At: at, Overlay: o.Name, Queue: o.Policy.Queue, DecidedOn: p.at}
	if last := p.last[o.Name]; last != nil && last.At.Equal(at) {
		return c.own(ctx, last)
	}
	if m.before != nil {
		x.Poll = m.before.Observation.At
		x.Steps = m.decision.Steps()
		x.Limits = m.decision.Limits()
		x.Uncounted = uncounted(m.decision, o.Policy)
	}
	x.Conditions = m.conditions(p.at, all)
	x.Why = m.why(x.Conditions)
	x.InFlight = m.inFlight()
	x.Timeline = m.timeline(p)
	var err error
	limit := limiting(x.Limits)
	if m.decision.Suspended.Code == plan.Paused {
		limit = pausedSetting
	} else if limit == "" && m.full() {
		limit = "max"
	}
	if o.Policy.Queue != "" {
		if x.Policy, err = c.policy(ctx, p.at, o, m.decision, limit); err != nil {
			x.Notes = append(x.Notes, "Who wrote the policy cannot be read: "+err.Error()+".")
		}
		if by := x.Policy.setBy(limit, m.decision.Schedule); by != "" {
			x.Why = slices.Insert(x.Why, 0, by)
		}
	}
	return x, ctx.Err()
}
