package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"muster/generator/simulation"
)

// printCase prints the table of a workload: a row for the lower bound and one for each
// algorithm.
func printCase(out io.Writer, c simulation.Case, algorithms []simulation.Named, rows []simulation.Row) error {
	width := len("lower bound")
	for _, a := range algorithms {
		width = max(width, len(a.Name))
	}
	printHead(out, c, rows[0])
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tTHROUGH\tMEAN WAIT\tP50\tP95\tMAX\tAGENTS\tUNUSED\tIDLE HOURS\tPOD-MIN/JOB\tCOMMITS\tNEVER SERVED\t")
	b := rows[0].Bound
	fmt.Fprintf(w, "%-*s\t\t%s\t%s\t%s\t%s\t%d\t0\t0.0\t\t-\t0\t\n", width, "lower bound", seconds(b.Mean), seconds(b.P50), seconds(b.P95), seconds(b.Max), rows[0].Jobs)
	for j, r := range rows {
		fmt.Fprintf(w, "%-*s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%.1f\t%.2f\t%d\t%d\t\n", width, r.Algorithm, algorithms[j].Transport,
			seconds(r.Wait.Mean), seconds(r.Wait.P50), seconds(r.Wait.P95), seconds(r.Wait.Max),
			r.Agents, r.InVain, r.Idle.Hours(), r.PodsPerJob().Minutes(), r.Commits, r.Unserved)
	}
	return w.Flush()
}

// printHead says what a workload is.
func printHead(out io.Writer, c simulation.Case, first simulation.Row) {
	fmt.Fprintf(out, "%s: %d jobs", c.Workload.Name, first.Jobs)
	if n := first.Unmatched; n > 0 {
		fmt.Fprintf(out, ", and %d that no agent matches", n)
	}
	if n := first.Cancelled; n > 0 {
		fmt.Fprintf(out, ", and %d cancelled while they waited under %s", n, first.Algorithm)
	}
	if c.About != "" {
		fmt.Fprintf(out, " (%s)", c.About)
	}
	fmt.Fprint(out, "\n\n")
}

// printSummary has a line for each workload: muster's default policy beside the bound, and
// whom no policy of muster's reaches.
func printSummary(out io.Writer, cases []simulation.Case, algorithms []simulation.Named, rows []simulation.Row) error {
	fmt.Fprint(out, "\nsummary: muster's default policy, and whose shorter p95 no policy of muster's reaches for as few pod-hours\n\n")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  WORKLOAD\tBOUND P95\tMUSTER P95\tRATIO\tUNUSED\tPOD-MIN/JOB\tNOT REACHED BY ANY POLICY")
	for i, c := range cases {
		rows := rows[i*len(algorithms):][:len(algorithms)]
		r, ratio, better := rows[0], "-", "none"
		if r.Bound.P95 > 0 {
			ratio = fmt.Sprintf("%.2f", float64(r.Wait.P95)/float64(r.Bound.P95))
		}
		if names := simulation.Unreached(algorithms, rows); len(names) > 0 {
			better = strings.Join(names, ", ")
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%d\t%.2f\t%s\n", c.Workload.Name, seconds(r.Bound.P95), seconds(r.Wait.P95), ratio, r.InVain, r.PodsPerJob().Minutes(), better)
	}
	return w.Flush()
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
	Told     float64 `json:"syncToldSeconds"`
	Requests int     `json:"requestsPerMinute"`
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
	Through   string      `json:"through"`
	Jobs      int         `json:"jobs"`
	Unmatched int         `json:"unmatched"`
	Cancelled int         `json:"cancelled"`
	Wait      waitsEntry  `json:"wait"`
	Bound     boundsEntry `json:"bound"`
	Agents    int         `json:"agents"`
	InVain    int         `json:"inVain"`
	NoShows   int         `json:"noShows"`
	IdleHours float64     `json:"idleHours"`
	PodHours  float64     `json:"podHours"`
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

// compared is what a run came to, as --json writes it and charts show it.
func compared(cases []simulation.Case, algorithms []simulation.Named, rows []simulation.Row) comparison {
	w := cases[0].World
	d := comparison{
		APIVersion: "muster.dev/v1alpha1", Kind: "Simulation", Seed: w.Seed,
		World: worldDocument{
			w.Interval.Seconds(), w.Sync.Seconds(), w.Jitter.Seconds(), w.Told.Seconds(), w.Requests, w.Boot[0].Seconds(), w.Boot[1].Seconds(),
			w.Policy.Max, w.Policy.Min, w.Policy.Buffer,
		},
	}
	for i, c := range cases {
		e := workloadEntry{Name: c.Workload.Name, About: c.About, Hours: c.Workload.Length.Hours()}
		for j, a := range algorithms {
			r := rows[i*len(algorithms)+j]
			e.Results = append(e.Results, algorithmEntry{
				Algorithm: a.Name, Source: a.Source, Through: a.Transport, Jobs: r.Jobs, Unmatched: r.Unmatched, Cancelled: r.Cancelled,
				Wait: entry(r.Wait), Bound: boundsEntry{entry(r.Bound), r.Jobs}, Agents: r.Agents, InVain: r.InVain,
				NoShows: r.NoShows, IdleHours: r.Idle.Hours(), PodHours: r.Pods.Hours(), Commits: r.Commits, Unserved: r.Unserved,
			})
		}
		d.Workloads = append(d.Workloads, e)
	}
	return d
}

func (d comparison) json() ([]byte, error) {
	text, err := json.MarshalIndent(d, "", "  ")
	return append(text, '\n'), err
}
