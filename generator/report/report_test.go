package report

import (
	"fmt"
	"iter"
	"math"
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

// TestConnected asserts the bounds of the agents' connected time, an estimate between them, and both limited to
// the period.
func TestConnected(t *testing.T) {
	var l log
	l.add(observe(ledger.Dispatch, 22*time.Hour, 10, "x"))
	l.add(observe(ledger.Retire, 26*time.Hour, 8, "x", 0, 1, 2, 3)) // of the ten at least four stayed, and four registered
	l.add(observe(ledger.Dispatch, 27*time.Hour, 0, "y"))
	for _, c := range []struct {
		name     string
		from, to time.Duration
		all      Range
	}{
		{"all", 0, 0, Range{Min: 16, Max: 64}},
		{"from between two", 25 * time.Hour, 0, Range{Min: 4, Max: 22}},
		{"until between two", 0, 23 * time.Hour, Range{Min: 4, Max: 14}},
	} {
		config := Config{From: begin.Add(c.from)}
		if c.to > 0 {
			config.To = begin.Add(c.to)
		}
		r := l.read(t, config)
		if got := r.Overlays[0].Connected; got.Min != c.all.Min || got.Max != c.all.Max || got.About <= got.Min || got.About >= got.Max {
			t.Errorf("%s: %v, want %v", c.name, got, c.all)
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
		if o := r.Overlays[0]; o.Connected != (Range{4, 4, 4}) || len(o.Samples) != 2 {
			t.Errorf("%d: %v in %d samples", year, o.Connected, len(o.Samples))
		}
	}
	var l log
	l.add(observe(ledger.Dispatch, 0, many, "x"))
	l.add(observe(ledger.Dispatch, 48*time.Hour, many, "y"))
	if o := l.read(t, Config{From: begin}).Overlays[0]; o.Connected != (Range{48 * many, 48 * many, 48 * many}) {
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
	if o := r.Overlays[0]; o.Unused != (Range{3, 4.5, 6}) || o.Lost != 1 || o.Registered != 7 {
		t.Errorf("%+v", o.Figures)
	}
}

// TestOutliers asserts that open breakers, failed orders, limits and long waits are listed with their reasons.
func TestOutliers(t *testing.T) {
	var l log
	for i, minute := range []int{0, 10, 12, 16, 30, 50} {
		e := observe(ledger.Dispatch, time.Duration(minute)*time.Minute, 0, fmt.Sprint("x", i))
		e.Orders[0].Agents, e.Orders[0].Trial = 1, i != 0 && i != 4
		l.add(e)
	}
	e := observe(ledger.Dispatch, time.Hour, 0, "y")
	old, older := e.Observation.At.Add(-3*time.Minute), e.Observation.At.Add(-time.Hour)
	e.Limit = "max 10"
	e.Observation.Jobs = []plan.Demand{{Overlays: []string{"a"}, Pending: 12, Oldest: &old}, {Overlays: []string{"b"}, Pending: 1, Oldest: &older}}
	l.add(e)
	l.add(observe(ledger.Retire, 2*time.Hour, 1, "y", 1))
	waiting := observe(ledger.Dispatch, 3*time.Hour, 0, "z")
	oldest := waiting.Observation.At.Add(-2 * time.Minute)
	waiting.Observation.Jobs, waiting.Limit = []plan.Demand{{Overlays: []string{"a"}, Pending: 11, Oldest: &oldest}}, "maxPerHour 20"
	l.add(waiting)
	l.add(observe(ledger.Retire, 4*time.Hour, 1, "z", 0, 1, 2, 3))
	var got []string
	for _, o := range l.read(t, Config{From: begin}).Outliers {
		got = append(got, o.Overlay+": "+o.What+": "+o.Reason)
	}
	want := []string{
		"a: a job waited 3 min: 3 agents ordered for it never registered",
		"a: a job waited 2 min: maxPerHour 20: 11 pending jobs, 0 idle and 10 in flight",
		"a: 3 of 4 agents never registered: their lease expired: muster explain says what to check",
		"a: 2 of 8 commits ordered too few agents: max 10: here 12 pending jobs, 0 idle and 10 in flight, so 2 too few",
		"a: the circuit breaker was open for at least 6 min: 3 trials",
	}
	if !slices.Equal(got, want) {
		t.Errorf("outliers\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestCompare asserts that figures state their change from the period before, or from the chosen one, and that there
// is no comparison with a period whose beginning is not in the history.
func TestCompare(t *testing.T) {
	var l log
	for i, hour := range []int{0, 24, 25, 48, 49, 50, 51} {
		l.add(observe(ledger.Dispatch, time.Duration(hour)*time.Hour, 0, fmt.Sprint("x", i)))
		l.add(observe(ledger.Retire, time.Duration(hour)*time.Hour+time.Minute, 4, fmt.Sprint("x", i), 0, 1, 2, 3))
	}
	for _, c := range []struct {
		since, compare time.Duration
		want           string
	}{
		{48 * time.Hour, 0, "+100 %, was 8"},
		{48 * time.Hour, time.Nanosecond, "+300 %, was 4"},
		{24 * time.Hour, 0, ""},
	} {
		config := Config{From: begin.Add(c.since), To: begin.Add(c.since + 24*time.Hour)}
		if c.compare > 0 {
			config.Compare = begin.Add(c.compare)
		}
		if c.want == "" {
			config.From = begin.Add(time.Hour)
		}
		r := l.read(t, config)
		if got := r.Headlines(Price{})[3]; got.Name != "agents started" || got.Change != c.want {
			t.Errorf("since %s, compared with %s: %+v, want %q", c.since, c.compare, got, c.want)
		}
	}
}

// TestWaits asserts the bounds and the estimate of waits: four jobs wait for agents that register between two known
// times, and a fifth finds an idle agent.
func TestWaits(t *testing.T) {
	var l log
	e := observe(ledger.Dispatch, time.Hour, 0, "x")
	oldest := e.Observation.At.Add(-10 * time.Second)
	e.Observation.Jobs = []plan.Demand{{Overlays: []string{"a"}, Pending: 4, Oldest: &oldest}}
	e.Observation.Idle = []plan.IdleAgents{{Agents: 1, Overlay: "a"}}
	l.add(e)
	e = observe(ledger.Retire, 2*time.Hour, 4, "x", 0, 1, 2, 3)
	seen := e.Observation.Overlays[0].Dispatches["x"]
	first, last := begin.Add(time.Hour+55*time.Second), begin.Add(time.Hour+80*time.Second)
	seen.FirstAt, seen.RegisteredAt = &first, &last
	e.Observation.Overlays[0].Dispatches["x"] = seen
	l.add(e)
	o := l.read(t, Config{From: begin}).Overlays[0]
	if o.Jobs != (Range{4, 4.5, 5}) {
		t.Errorf("%+v jobs", o.Jobs)
	}
	for q, want := range map[float64]Range{0.1: {0, 0, 0}, 0.5: {40, 60, 90}, 0.95: {40, 72, 90}} {
		if got, _ := o.Waits.Quantile(q); math.Abs(got.Min-want.Min)+math.Abs(got.Max-want.Max) > 1 || math.Abs(got.About-want.About) > 5 {
			t.Errorf("quantile %v: %+v, want %+v", q, got, want)
		}
	}
	r := Report{Overlays: []Overlay{o}, From: begin, To: begin.Add(time.Hour)}
	if d := Doubts(r.Headlines(Price{})); len(d) == 0 || d[0].Figures != "median wait, p95 wait" || !strings.Contains(d[0].Query, "muster_start_seconds") {
		t.Errorf("doubts %+v", d)
	}
}

// TestLimits asserts that the report begins with the oldest operation that is kept, and knows the overlays that it omits.
func TestLimits(t *testing.T) {
	var l log
	for i := range 20 {
		l.add(observe(ledger.Dispatch, time.Duration(i)*time.Minute, 0, fmt.Sprint("x", i)))
	}
	r := l.read(t, Config{From: begin, MaxEntries: 7})
	if !r.Cut || r.Overlays[0].Orders != 7 || !r.From.Equal(begin.Add(13*time.Minute)) || !strings.Contains(r.Source(), "The report omits older commits") {
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
		r := Report{From: begin, To: begin.Add(time.Hour), Overlays: []Overlay{{Name: name}, {Name: text("other")}}, Outliers: []Outlier{{Overlay: text("outlier")}},
			Edits: []ledger.Operation{{Commit: branch.Commit{At: begin, Author: text("by")}, Kind: ledger.Policy, Overlay: name, Why: text("why"), Reason: text("reason")}}}
		md := r.Markdown(Price{PerHour: 1, Currency: "EUR"})
		if left := markdowntest.Outside(md); strings.Contains(left, "canary") || strings.Contains(left, "<b>") {
			t.Fatalf("outside of code there is\n%s\nof\n%s", left, md)
		}
	})
}
