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
	if longest := longestWait(o); o.Agents != agents || o.Registered != came || o.Lost+o.InFlight != agents-came || longest != wait {
		d.t.Errorf("%s: %d agents, %d registered, %d never, %d in flight, longest wait %s; want %d, %d, %s", label, o.Agents, o.Registered, o.Lost, o.InFlight, longest, agents, came, wait)
	}
	if n := float64(inVain); o.Unused.Min > n || o.Unused.Max < n {
		d.t.Errorf("%s: unused %+v, want %d", label, o.Unused, inVain)
	}
	if truly := d.connected(o.Since, o.Until).Hours(); o.Since.IsZero() || o.Connected.Min > truly+rounding || o.Connected.Max < truly-rounding {
		d.t.Errorf("%s: connected %+v from %s to %s, truly %v", label, o.Connected, o.Since, o.Until, truly)
	} else if math.Abs(o.Connected.About-truly) > truly/8 {
		d.t.Errorf("%s: connected about %v, truly %v", label, o.Connected.About, truly)
	}
	if len(o.Ordered) != o.Orders {
		d.t.Errorf("%s: %d of %d orders", label, len(o.Ordered), o.Orders)
	}
	for _, e := range r.Edits {
		if e.Kind.Own() {
			d.t.Errorf("%s: an edit of people is %s", label, e.Kind)
		}
	}
	if from.Equal(simulation.Start()) { // jobs that start between the last commits of another period count elsewhere
		d.compareWaits(label, o, to)
	}
}

// longestWait returns the greatest age of a pending job in a commit.
func longestWait(o report.Overlay) (longest time.Duration) {
	for _, s := range o.Samples {
		if !s.Oldest.IsZero() {
			longest = max(longest, s.At.Sub(s.Oldest))
		}
	}
	return longest
}

// compareWaits compares jobs and waits with what truly happened until a time.
func (d *day) compareWaits(label string, o report.Overlay, to time.Time) {
	var waits []float64
	for _, j := range d.jobs {
		if !j.Started.IsZero() && j.Started.Before(to) {
			waits = append(waits, j.Started.Sub(j.Runnable).Seconds())
		}
	}
	slices.Sort(waits)
	if n := float64(len(waits)); o.Jobs.Min > n || o.Jobs.Max < n || math.Abs(o.Jobs.About-n) > n/8 {
		d.t.Errorf("%s: %+v jobs, truly %v", label, o.Jobs, n)
	}
	for _, q := range []float64{0.5, 0.95} {
		got, ok := o.Waits.Quantile(q)
		truly := waits[int(math.Ceil(q*float64(len(waits))))-1]
		if !ok || got.Min > truly || got.Max < truly {
			d.t.Errorf("%s: quantile %v of waits is %+v, truly %v s", label, q, got, truly)
		}
	}
}

// rounding is how far two sums of agent-hours may differ.
const rounding = 1e-6
