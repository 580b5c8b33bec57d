package history_test

import (
	"fmt"
	"math"
	"slices"
	"time"

	"muster/generator/ledger"
	"muster/generator/report"
	"muster/generator/simulation"
)

// reported makes a report of the day.
func (d *day) reported(from, to time.Time) report.Report {
	c := report.Config{Overlays: "overlays", From: from, To: to, Now: d.buildkite.Now(), Edits: d.editsOf}
	r, err := c.Read(ledger.Read("overlays", newestFirst(d.commits)))
	check(d.t, err)
	return r
}

// connected is how long agents were there between two moments.
func (d *day) connected(from, to time.Time) (all time.Duration) {
	for _, a := range d.agents {
		begin, end := a.Connected, a.Ended
		if end.IsZero() || end.After(to) {
			end = to
		}
		if begin.Before(from) {
			begin = from
		}
		all += max(0, end.Sub(begin))
	}
	return all
}

// waited is how long the oldest pending job had waited at a moment.
func (d *day) waited(at time.Time) (most time.Duration) {
	for _, j := range d.jobs {
		if !j.Runnable.IsZero() && !j.Runnable.After(at) && (j.Started.IsZero() || j.Started.After(at)) {
			most = max(most, at.Sub(j.Runnable))
		}
	}
	return most
}

// compareReports compares each figure of reports of the days with what truly happened:
// those that are exact, and those that are bounds.
func (d *day) compareReports() {
	begin := simulation.Start()
	for _, x := range [][2]time.Duration{{0, d.length()}, {6 * time.Hour, 18*time.Hour + 7*time.Second}, {22 * time.Hour, 25 * time.Hour}} {
		d.compareReport(fmt.Sprint(x), begin.Add(x[0]), begin.Add(x[1]))
	}
}

func (d *day) compareReport(label string, from, to time.Time) {
	r := d.reported(from, to)
	if len(r.Overlays) != 1 {
		d.t.Fatalf("%s: %d overlays", label, len(r.Overlays))
	}
	o := r.Overlays[0]
	var agents, came, inVain int
	var wait time.Duration
	for _, c := range d.commits {
		if !c.At.Before(from) && c.At.Before(to) && c.Author == "muster" {
			wait = max(wait, d.waited(c.At))
		}
	}
	records := d.agents
	for id, x := range d.orders {
		if x.At.Before(from) || !x.At.Before(to) {
			continue
		}
		agents += x.Agents
		came += len(x.registered)
		for _, a := range records {
			if slices.Contains(a.Tags, "dispatch="+id) && a.Jobs == 0 && a.Job == "" && !a.Ended.IsZero() {
				inVain++
			}
		}
	}
	if o.Agents != agents || o.Registered != came || o.Lost+o.InFlight != agents-came || o.Wait != wait {
		d.t.Errorf("%s: %d agents, %d registered, %d never, %d in flight, longest wait %s; want %d, %d, %s", label, o.Agents, o.Registered, o.Lost, o.InFlight, o.Wait, agents, came, wait)
	}
	if o.Unused.Min > inVain || o.Unused.Max < inVain {
		d.t.Errorf("%s: unused %+v, want %d", label, o.Unused, inVain)
	}
	if truly := d.connected(o.Since, o.Until).Hours(); o.Since.IsZero() || o.Connected.Min > truly+rounding || o.Connected.Max < truly-rounding {
		d.t.Errorf("%s: connected %+v from %s to %s, truly %v", label, o.Connected, o.Since, o.Until, truly)
	} else if about := (o.Connected.Min + o.Connected.Max) / 2; math.Abs(about-truly) > truly/8 { // as in docs/how-to/investigate.md
		d.t.Errorf("%s: connected about %v, truly %v", label, about, truly)
	}
	d.compareDays(label, r, o)
}

// rounding is how far two sums of agent-hours may differ.
const rounding = 1e-6

// compareDays compares the days with the overlay's sums, and each with what happened.
func (d *day) compareDays(label string, r report.Report, o report.Overlay) {
	var sum report.Figures
	for _, day := range r.Days {
		from, to := day.At, day.At.Add(24*time.Hour)
		if from.Before(o.Since) {
			from = o.Since
		}
		if to.After(o.Until) {
			to = o.Until
		}
		if truly := d.connected(from, to).Hours(); day.Connected.Min > truly+rounding || day.Connected.Max < truly-rounding {
			d.t.Errorf("%s: on %s connected %+v, truly %v", label, day.At, day.Connected, truly)
		}
		sum.Agents += day.Agents
		sum.Connected.Min += day.Connected.Min
		sum.Connected.Max += day.Connected.Max
		sum.Wait = max(sum.Wait, day.Wait)
		sum.Unused.Min += day.Unused.Min
		sum.Unused.Max += day.Unused.Max
	}
	off := max(math.Abs(sum.Connected.Min-o.Connected.Min), math.Abs(sum.Connected.Max-o.Connected.Max))
	if sum.Agents != o.Agents || off > rounding || sum.Wait != o.Wait || sum.Unused != o.Unused {
		d.t.Errorf("%s: the days come to %+v, the overlay to %+v", label, sum, o.Figures)
	}
	ops := 0
	for _, e := range r.Edits {
		if e.Kind.Own() {
			d.t.Errorf("%s: an edit of people is %s", label, e.Kind)
		}
	}
	for _, a := range r.Operations {
		if a.Kind == ledger.Dispatch {
			ops++
		}
	}
	if r.LeftOut.Operations == 0 && (ops != o.Orders || len(o.Ordered) != o.Orders) {
		d.t.Errorf("%s: %d orders are listed and %d marked of %d", label, ops, len(o.Ordered), o.Orders)
	}
}
