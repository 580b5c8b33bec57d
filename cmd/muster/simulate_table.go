package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"muster/generator/simulation"
)

// printComparison prints a table for each workload: the lower bounds first, and
// then a line for each algorithm.
func printComparison(out io.Writer, cases []simulation.Case, algorithms []simulation.Named, rows []simulation.Row) error {
	for i, c := range cases {
		rows := rows[i*len(algorithms):][:len(algorithms)]
		if i > 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintf(out, "%s: %d jobs", c.Workload.Name, rows[0].Jobs)
		if n := rows[0].Unmatched; n > 0 {
			fmt.Fprintf(out, ", and %d that no agent matches", n)
		}
		if n := rows[0].Cancelled; n > 0 {
			fmt.Fprintf(out, ", and %d cancelled while they waited under %s", n, rows[0].Algorithm)
		}
		if c.About != "" {
			fmt.Fprintf(out, " (%s)", c.About)
		}
		fmt.Fprint(out, "\n\n")
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(w, "\tMEAN WAIT\tP50\tP95\tMAX\tAGENTS\tIN VAIN\tIDLE HOURS\tCOMMITS\tNEVER SERVED\t")
		width := len("lower bound")
		for _, a := range algorithms {
			width = max(width, len(a.Name))
		}
		b := rows[0].Bound
		fmt.Fprintf(w, "%-*s\t%s\t%s\t%s\t%s\t%d\t0\t0.0\t-\t0\t\n", width, "lower bound", seconds(b.Mean), seconds(b.P50), seconds(b.P95), seconds(b.Max), rows[0].Jobs)
		for _, r := range rows {
			fmt.Fprintf(w, "%-*s\t%s\t%s\t%s\t%s\t%d\t%d\t%.1f\t%d\t%d\t\n", width, r.Algorithm,
				seconds(r.Wait.Mean), seconds(r.Wait.P50), seconds(r.Wait.P95), seconds(r.Wait.Max),
				r.Agents, r.InVain, r.Idle.Hours(), r.Commits, r.Unserved)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// seconds is a wait to a tenth of a second.
func seconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }

// comparison is what --json writes.
type comparison struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Seed       uint64          `json:"seed"`
	World      worldDocument   `json:"world"`
	Workloads  []workloadEntry `json:"workloads"`
}

// worldDocument is the world of all workloads; times are in seconds.
type worldDocument struct {
	Interval float64 `json:"intervalSeconds"`
	Sync     float64 `json:"syncSeconds"`
	Jitter   float64 `json:"syncJitterSeconds"`
	BootMin  float64 `json:"bootMinSeconds"`
	BootMax  float64 `json:"bootMaxSeconds"`
	Max      int     `json:"max"`
	Min      int     `json:"min"`
	Buffer   int     `json:"buffer"`
}

type workloadEntry struct {
	Name    string           `json:"name"`
	About   string           `json:"about,omitempty"`
	Hours   float64          `json:"hours"`
	Results []algorithmEntry `json:"results"`
}

type algorithmEntry struct {
	Algorithm string      `json:"algorithm"`
	Source    string      `json:"source"`
	Jobs      int         `json:"jobs"`
	Unmatched int         `json:"unmatched"`
	Cancelled int         `json:"cancelled"`
	Wait      waitsEntry  `json:"wait"`
	Bound     boundsEntry `json:"bound"`
	Agents    int         `json:"agents"`
	InVain    int         `json:"inVain"`
	NoShows   int         `json:"noShows"`
	IdleHours float64     `json:"idleHours"`
	Commits   int         `json:"commits"`
	Unserved  int         `json:"neverServed"`
}

type boundsEntry struct {
	Wait   waitsEntry `json:"wait"`
	Agents int        `json:"agents"`
}

// waitsEntry is in seconds.
type waitsEntry struct {
	Mean float64 `json:"meanSeconds"`
	P50  float64 `json:"p50Seconds"`
	P95  float64 `json:"p95Seconds"`
	Max  float64 `json:"maxSeconds"`
}

func entry(w simulation.Waits) waitsEntry {
	s := func(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }
	return waitsEntry{s(w.Mean), s(w.P50), s(w.P95), s(w.Max)}
}

func comparisonJSON(cases []simulation.Case, algorithms []simulation.Named, rows []simulation.Row) ([]byte, error) {
	w := cases[0].World
	d := comparison{
		APIVersion: "muster.dev/v1alpha1", Kind: "Simulation", Seed: w.Seed,
		World: worldDocument{
			w.Interval.Seconds(), w.Sync.Seconds(), w.Jitter.Seconds(), w.Boot[0].Seconds(), w.Boot[1].Seconds(),
			w.Policy.Max, w.Policy.Min, w.Policy.Buffer,
		},
	}
	for i, c := range cases {
		e := workloadEntry{Name: c.Workload.Name, About: c.About, Hours: c.Workload.Length.Hours()}
		for j, a := range algorithms {
			r := rows[i*len(algorithms)+j]
			e.Results = append(e.Results, algorithmEntry{
				Algorithm: a.Name, Source: a.Source, Jobs: r.Jobs, Unmatched: r.Unmatched, Cancelled: r.Cancelled,
				Wait: entry(r.Wait), Bound: boundsEntry{entry(r.Bound), r.Jobs}, Agents: r.Agents, InVain: r.InVain,
				NoShows: r.NoShows, IdleHours: r.Idle.Hours(), Commits: r.Commits, Unserved: r.Unserved,
			})
		}
		d.Workloads = append(d.Workloads, e)
	}
	text, err := json.MarshalIndent(d, "", "  ")
	return append(text, '\n'), err
}
