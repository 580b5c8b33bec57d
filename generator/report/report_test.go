package report

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"muster/generator/ledger"
	"muster/generator/markdowntest"
	"muster/generator/plan"
	"muster/gitops/branch"
)

var begin = time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC)

// log is the log of a fleet, oldest first.
type log []ledger.Operation

func (l *log) add(e ledger.Operation) {
	e.Commit, e.Path = branch.Commit{ID: fmt.Sprintf("%040x", len(*l)+1), At: e.Observation.At}, "overlays/"+e.Overlay
	if n := len(*l); n > 0 {
		e.Parents = []string{(*l)[n-1].ID}
	}
	*l = append(*l, e)
}

// observe returns an entry with connected agents, and a dispatch with its registered indexes.
func observe(kind ledger.Kind, at time.Duration, connected int, id string, registered ...int) ledger.Operation {
	s := plan.Capacity{Overlay: "a", Own: connected, Dispatches: map[string]plan.Observed{}}
	var seen plan.Observed
	for _, i := range registered {
		seen.Registered.Add(i)
	}
	if len(registered) > 0 {
		s.Dispatches[id] = seen
	}
	return ledger.Operation{Overlay: "a", Kind: kind, Orders: []ledger.Order{{ID: id, Agents: 4}}, Observation: plan.Observation{At: begin.Add(at), Overlays: []plan.Capacity{s}}}
}

func (l log) read(t *testing.T, c Config) Report {
	t.Helper()
	c.Overlays, c.Now = "overlays", begin.Add(72*time.Hour)
	r, err := c.Read(iter.Seq2[ledger.Operation, error](func(yield func(ledger.Operation, error) bool) {
		for _, x := range slices.Backward(l) {
			if !yield(x, nil) {
				return
			}
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestConnected: the bounds of the agents' connected time, across midnight, and limited to the
// period.
func TestConnected(t *testing.T) {
	var l log
	l.add(observe(ledger.Dispatch, 22*time.Hour, 10, "x"))
	l.add(observe(ledger.Retire, 26*time.Hour, 8, "x", 0, 1, 2, 3)) // of the ten at least four stayed, and four registered
	l.add(observe(ledger.Dispatch, 27*time.Hour, 0, "y"))
	for _, c := range []struct {
		name     string
		from, to time.Duration
		all      Range
		days     []Range
	}{
		{"all", 0, 0, Range{16, 64}, []Range{{8, 36}, {8, 28}}},
		{"from between two", 25 * time.Hour, 0, Range{4, 22}, []Range{{4, 22}}},
		{"until between two", 0, 23 * time.Hour, Range{4, 14}, []Range{{4, 14}}},
	} {
		config := Config{From: begin.Add(c.from)}
		if c.to > 0 {
			config.To = begin.Add(c.to)
		}
		r := l.read(t, config)
		if got := r.Overlays[0].Connected; got != c.all {
			t.Errorf("%s: %v, want %v", c.name, got, c.all)
		}
		var days []Range
		for _, d := range r.Days {
			days = append(days, d.Connected)
		}
		if !slices.Equal(days, c.days) {
			t.Errorf("%s: days %v, want %v", c.name, days, c.days)
		}
	}
}

// TestImplausibleSamples asserts that a commit with a time in the future, or with as many agents as a
// commit can contain, neither adds days nor lets a sum overflow, and that later commits count.
func TestImplausibleSamples(t *testing.T) {
	const many = 1_000_000_000
	for _, year := range []int{2027, 2200, 2499, 9999} {
		var l log
		l.add(observe(ledger.Dispatch, time.Hour, 2, "x"))
		l.add(observe(ledger.Dispatch, time.Date(year, 12, 31, 23, 59, 59, 0, time.UTC).Sub(begin), 3, "y"))
		l[1].Observation.At = time.Date(year, 12, 31, 23, 59, 59, 0, time.UTC)
		l.add(observe(ledger.Dispatch, 3*time.Hour, 2, "z"))
		r := l.read(t, Config{From: begin})
		if o := r.Overlays[0]; o.Connected != (Range{4, 4}) || len(o.Samples) != 2 || len(r.Days) > 2 {
			t.Errorf("%d: %v in %d samples and %d days", year, o.Connected, len(o.Samples), len(r.Days))
		}
	}
	var l log
	l.add(observe(ledger.Dispatch, 0, many, "x"))
	l.add(observe(ledger.Dispatch, 48*time.Hour, many, "y"))
	if o := l.read(t, Config{From: begin}).Overlays[0]; o.Connected != (Range{48 * many, 48 * many}) {
		t.Errorf("%d agents for two days: %v", many, o.Connected)
	}
}

// TestUnused: agents that exited without a job before the retirement are unused; of an order that
// had one job, all but one may be.
func TestUnused(t *testing.T) {
	var l log
	l.add(observe(ledger.Dispatch, time.Hour, 0, "x"))
	l.add(observe(ledger.Retire, 2*time.Hour, 0, "x", 0, 1, 2))
	l.add(observe(ledger.Dispatch, 3*time.Hour, 0, "y"))
	e := observe(ledger.Retire, 4*time.Hour, 2, "y", 0, 1, 2, 3)
	seen := e.Observation.Overlays[0].Dispatches["y"]
	seen.HadJob, seen.Connected = 1, 2
	e.Observation.Overlays[0].Dispatches["y"] = seen
	l.add(e)
	r := l.read(t, Config{From: begin})
	if o := r.Overlays[0]; o.Unused != (Bounds{3, 6}) || o.Lost != 1 || o.Registered != 7 {
		t.Errorf("%+v", o.Figures)
	}
}

// TestBreaker: counts trials; the breaker is open from the first to the last trial in a row.
func TestBreaker(t *testing.T) {
	var l log
	for i, minute := range []int{0, 10, 12, 16, 30, 50} {
		e := observe(ledger.Dispatch, time.Duration(minute)*time.Minute, 0, fmt.Sprint("x", i))
		e.Orders[0].Agents, e.Orders[0].Trial = 1, i != 0 && i != 4
		l.add(e)
	}
	o := l.read(t, Config{From: begin}).Overlays[0]
	if o.Trials != 4 || o.Open != 6*time.Minute || len(o.Ordered) != 6 || !o.Ordered[0].At.Equal(begin) {
		t.Errorf("%d trials, open for %s, %v", o.Trials, o.Open, o.Ordered)
	}
}

// TestWait: the age of the overlay's oldest pending job at a commit.
func TestWait(t *testing.T) {
	var l log
	e := observe(ledger.Dispatch, time.Hour, 0, "x")
	old, older := e.Observation.At.Add(-3*time.Minute), e.Observation.At.Add(-time.Hour)
	e.Observation.Jobs = []plan.Demand{{Overlays: []string{"a"}, Pending: 1, Oldest: &old}, {Overlays: []string{"b"}, Pending: 1, Oldest: &older}}
	l.add(e)
	r := l.read(t, Config{From: begin})
	if got := r.Overlays[0].Wait; got != 3*time.Minute || r.Days[0].Wait != got {
		t.Errorf("waited %s", got)
	}
}

// TestLimits: figures include operations that are not listed; the report begins with the oldest
// entry that is kept.
func TestLimits(t *testing.T) {
	var l log
	for i := range maxOperations + 10 {
		l.add(observe(ledger.Dispatch, time.Duration(i)*time.Minute, 0, fmt.Sprint("x", i)))
	}
	r := l.read(t, Config{From: begin})
	if len(r.Operations) != maxOperations || r.LeftOut.Operations != 10 || r.Overlays[0].Orders != maxOperations+10 || r.Cut {
		t.Errorf("%d operations, %d left out, %d orders, cut %t", len(r.Operations), r.LeftOut.Operations, r.Overlays[0].Orders, r.Cut)
	}
	r = l.read(t, Config{From: begin, MaxEntries: 7})
	if !r.Cut || r.Overlays[0].Orders != 7 || !r.From.Equal(begin.Add((maxOperations+3)*time.Minute)) || !strings.Contains(r.Source(), "The report omits older commits") {
		t.Errorf("cut %t, %d orders from %s", r.Cut, r.Overlays[0].Orders, r.From)
	}
	if r = l.read(t, Config{From: begin, Names: []string{"b"}}); len(r.Overlays) != 0 || !slices.Equal(r.Names, []string{"a"}) {
		t.Errorf("%d overlays of %q", len(r.Overlays), r.Names)
	}
}

// TestUntrustedTextIsCode: untrusted text is in code spans only.
func TestUntrustedTextIsCode(t *testing.T) {
	word := rapid.SampledFrom([]string{"@canary", "`", "``", "```", "|", "\n", " ", "<b>", "[x](y)", "# h", "a", "~~~", "\\"})
	rapid.Check(t, func(t *rapid.T) {
		text := func(label string) string {
			return strings.Join(rapid.SliceOfN(word, 1, 8).Draw(t, label), "") + "@canary"
		}
		name := text("name")
		r := Report{From: begin, To: begin.Add(time.Hour), Overlays: []Overlay{{Name: name}, {Name: text("other")}},
			Edits: []ledger.Operation{{Commit: branch.Commit{At: begin, Author: text("by")}, Kind: ledger.Policy, Overlay: name, Why: text("why"), Reason: text("reason")}}}
		md := r.Markdown(Price{PerHour: 1, Currency: "EUR"})
		if left := markdowntest.Outside(md); strings.Contains(left, "canary") || strings.Contains(left, "<b>") {
			t.Fatalf("outside of code there is\n%s\nof\n%s", left, md)
		}
	})
}
