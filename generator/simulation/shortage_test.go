package simulation

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/generator/buildkite/fakebuildkite"
	"muster/gitops/unraced"
)

var update = flag.Bool("update", false, "write the table of docs/explanation/scaling-quality.md")

// shortage is something that delays or loses agents, from eventAt on.
type shortage struct {
	name   string
	change func(*Scenario)
	// random says that the agents of an order are delayed or lost one by one, so that newer ones
	// overtake them. In the other shortages pods get their nodes in the order of their creation.
	random bool
}

// shortages are the rows of the table in docs/explanation/scaling-quality.md.
func shortages() []shortage {
	lost := func(share float64) func(*Scenario) {
		return func(w *Scenario) { w.Faults.NoShow = share }
	}
	nodes := func(n int, length time.Duration) func(*Scenario) {
		return func(w *Scenario) {
			w.plan = func(r *run) {
				at := r.start.Add(eventAt)
				r.buildkite.At(at, func() { r.cluster.SetNodes(n) })
				r.buildkite.At(at.Add(length), func() { r.cluster.SetNodes(0) })
			}
		}
	}
	starts := func(length time.Duration, change func(*Fate)) func(*Scenario) {
		return func(w *Scenario) {
			w.plan = func(r *run) {
				fate := r.cluster.Fate
				r.cluster.Fate = func() Fate {
					f := fate()
					if since := r.buildkite.Now().Sub(r.start) - eventAt; since >= 0 && since < length {
						change(&f)
					}
					return f
				}
			}
		}
	}
	take := func(d time.Duration) func(*Fate) { return func(f *Fate) { f.Startup = d } }
	both := func(a, b func(*Scenario)) func(*Scenario) { return func(w *Scenario) { a(w); b(w) } }
	const room = 40 // of a herd of 60, beside the jobs that run
	all := []shortage{
		{name: "none", change: func(*Scenario) {}},
		{name: "1 of 200 agents lost", change: lost(1. / 200), random: true},
		{name: "1 of 20 agents lost", change: lost(1. / 20), random: true},
	}
	for _, minutes := range []int{1, 2, 5, 8, 10} {
		d := time.Duration(minutes) * time.Minute
		all = append(all, shortage{name: fmt.Sprintf("room for 40 pods, more after %d min", minutes), change: nodes(room, d)})
	}
	return append(all,
		shortage{name: "room for 20 pods for two hours", change: nodes(20, 2*time.Hour)},
		shortage{name: "starts take 8 min, for 8 min", change: starts(8*time.Minute, take(8*time.Minute))},
		shortage{name: "starts take 8 min, for an hour", change: starts(time.Hour, take(8*time.Minute))},
		shortage{name: "starts take 12 min, for an hour", change: starts(time.Hour, take(12*time.Minute))},
		shortage{name: "the same, and 1 of 20 agents is lost", change: both(starts(time.Hour, take(12*time.Minute)), lost(1./20)), random: true},
		shortage{name: "half of the pods wait 5 min for a node, for an hour", change: starts(time.Hour, func(f *Fate) {
			if f.Startup/time.Millisecond%2 == 0 {
				f.Startup += 5 * time.Minute
			}
		}), random: true},
	)
}

// playShortage plays steady jobs, and sixty at once every hour from eventAt on. It also returns the
// largest number of pods whose agents had not registered.
func playShortage(t *testing.T, s shortage, policy func(*Scenario)) (m Measures, waiting int) {
	t.Helper()
	const hours = 6
	l := loadNamed(t, "steady").Generate(3, hours*time.Hour)
	for at := eventAt; at < hours*time.Hour; at += time.Hour {
		herd := fakebuildkite.Step{Label: "herd", Parallelism: 60, Duration: 4 * time.Minute}
		l.Arrivals = append(l.Arrivals, Arrival{At: at, Build: fakebuildkite.Build{Steps: []fakebuildkite.Step{herd}}})
	}
	w := DefaultScenario()
	w.Seed = 3
	policy(&w)
	s.change(&w)
	begin := w.plan
	w.plan = func(r *run) {
		if begin != nil {
			begin(r)
		}
		var sample func()
		sample = func() {
			waiting = max(waiting, r.starting)
			r.buildkite.At(r.buildkite.Now().Add(5*time.Second), sample)
		}
		sample()
	}
	return Play(w, l, &Muster{}, nil), waiting
}

// TestShortage compares `lease: auto` with a fixed lease. It orders no pod beside one that waits for
// a node, and jobs wait no longer; where agents are lost, it replaces them sooner. The results are
// the table of docs/explanation/scaling-quality.md.
func TestShortage(t *testing.T) {
	unraced.Only(t)
	all := shortages()
	rows := make([]string, len(all))
	t.Run("shortages", func(t *testing.T) {
		for i, s := range all {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				fixed, before := playShortage(t, s, fixedLease)
				m, waiting := playShortage(t, s, func(*Scenario) {})
				seconds := func(d time.Duration) string { return fmt.Sprintf("%.0f", d.Seconds()) }
				rows[i] = fmt.Sprintf("| %s | %d | %d | %s | %s | %s | %s |\n", s.name, before, waiting, seconds(fixed.Wait.Mean), seconds(m.Wait.Mean), seconds(fixed.Wait.Max), seconds(m.Wait.Max))
				if m.Unserved > 0 {
					t.Errorf("%d jobs were never served", m.Unserved)
				}
				if !s.random && (waiting > before || m.Unused > 0) {
					t.Errorf("%d pods wait at once, %d with a fixed lease; %d agents are unused", waiting, before, m.Unused)
				}
				if 10*m.Wait.Mean > 11*fixed.Wait.Mean || 10*m.Wait.Max > 11*fixed.Wait.Max {
					t.Errorf("jobs wait %s and at most %s, with a fixed lease %s and %s", m.Wait.Mean, m.Wait.Max, fixed.Wait.Mean, fixed.Wait.Max)
				}
				if strings.HasSuffix(s.name, " agents lost") && m.Wait.Max >= fixed.Wait.Max {
					t.Errorf("jobs wait at most %s, with a fixed lease %s: lost agents are replaced no sooner", m.Wait.Max, fixed.Wait.Max)
				}
			})
		}
	})
	checkTable(t, strings.Join(rows, ""))
}

// checkTable compares the rows of a table of docs/explanation/scaling-quality.md, and writes them
// with -update.
func checkTable(t *testing.T, rows string) {
	t.Helper()
	const begin, end = "<!-- begin: shortages -->\n", "<!-- end: shortages -->\n"
	const head = "| shortage | pods waiting at once: fixed | auto | mean wait: fixed | auto | worst wait: fixed | auto |\n|---|--:|--:|--:|--:|--:|--:|\n"
	file := filepath.Join("..", "..", "docs", "explanation", "scaling-quality.md")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	got, after, ok2 := strings.Cut(rest, end)
	switch {
	case !ok || !ok2:
		t.Fatalf("%s has no place for the table", file)
	case got == head+rows:
	case *update:
		if err := os.WriteFile(file, []byte(before+begin+head+rows+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is behind: run go test ./generator/simulation -run TestShortage -update. The rows are\n%s", file, rows)
	}
}
