package laboratory

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
	"time"

	"muster/cmd/chart"
	"muster/generator/ledger"
	"muster/generator/simulation"
)

// Drawn are the algorithms in charts, in order.
var Drawn = []string{"muster", "muster-reuse-auto", "agent-stack-k8s-max", "keda-accurate", "elastic-ci-stack"}

// InChart returns the algorithms that a chart shows: those in [Drawn], then the others in the
// given order, at most [chart.MaxSeries].
func InChart(algorithms []string) []string {
	var shown []string
	for _, name := range slices.Concat(Drawn, algorithms) {
		if slices.Contains(algorithms, name) && !slices.Contains(shown, name) && len(shown) < chart.MaxSeries {
			shown = append(shown, name)
		}
	}
	return shown
}

// Chart draws waits and costs, a row for each workload.
func (d Comparison) Chart() []byte {
	var names []string
	for _, r := range d.Workloads[0].Results {
		names = append(names, r.Algorithm)
	}
	c := chart.Dots{Title: "Waits and their cost, by workload", Series: InChart(names)}
	waits := chart.Column{Title: "p95 wait, seconds", Min: 10}
	costs := chart.Column{Title: "pod-minutes per job, relative to " + c.Series[0], Min: 0.4}
	for _, w := range d.Workloads {
		c.Rows = append(c.Rows, w.Name)
		var wait, cost []float64
		for _, name := range c.Series {
			r := w.Results[slices.Index(names, name)]
			wait, cost = append(wait, r.Wait.P95), append(cost, r.PodHours/float64(max(1, r.Jobs)))
		}
		for i, reference := len(cost)-1, cost[0]; i >= 0; i-- {
			if cost[i] /= reference; math.IsInf(cost[i], 1) {
				cost[i] = math.NaN()
			}
		}
		waits.Values, costs.Values = append(waits.Values, wait), append(costs.Values, cost)
	}
	c.Columns = []chart.Column{waits, costs}
	return c.SVG()
}

// PrintCase prints the table of a workload: a row for the lower bound and one for each
// algorithm.
func PrintCase(out io.Writer, c simulation.Case, algorithms []simulation.Named, rows []simulation.Row) error {
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
			r.Agents, r.Unused, r.Idle.Hours(), r.PodsPerJob().Minutes(), r.Commits, r.Unserved)
	}
	return w.Flush()
}

// printHead prints the description of a workload.
func printHead(out io.Writer, c simulation.Case, first simulation.Row) {
	fmt.Fprintf(out, "%s: %s", c.Workload.Name, ledger.Count(first.Jobs, "job"))
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

// PrintSummary prints a line for each workload: the result of muster's default policy, and the
// bound.
func PrintSummary(out io.Writer, cases []simulation.Case, algorithms []simulation.Named, rows []simulation.Row) error {
	fmt.Fprint(out, "\nsummary: p95 of muster's default policy\n\n")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  WORKLOAD\tBOUND P95\tMUSTER P95\tRATIO\tUNUSED\tPOD-MIN/JOB")
	for i, c := range cases {
		r, ratio := rows[i*len(algorithms)], "-"
		if r.Bound.P95 > 0 {
			ratio = fmt.Sprintf("%.2f", float64(r.Wait.P95)/float64(r.Bound.P95))
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%d\t%.2f\n", c.Workload.Name, seconds(r.Bound.P95), seconds(r.Wait.P95), ratio, r.Unused, r.PodsPerJob().Minutes())
	}
	return w.Flush()
}

// PrintMeans prints the means of each algorithm, relative to the first, over the workloads that model organisations, if
// there are at least two.
func PrintMeans(out io.Writer, cases []simulation.Case, algorithms []simulation.Named, rows []simulation.Row) error {
	var models []int
	for i, c := range cases {
		if c.Workload.Modelled {
			models = append(models, i)
		}
	}
	if len(models) < 2 {
		return nil
	}
	fmt.Fprintf(out, "\ngeometric means over %d workloads that model organisations, relative to %s; waits plus 1s\n\n", len(models), algorithms[0].Name)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  ALGORITHM\tMEAN WAIT\tP95\tPOD-HOURS\tCOMMITS\tWORST POD-HOURS\tNEVER SERVED")
	for j, a := range algorithms {
		var logs [4]float64
		worst, of, unserved := 0.0, "", 0
		for _, i := range models {
			first, r := rows[i*len(algorithms)], rows[i*len(algorithms)+j]
			pods := (r.Pods.Hours() + 1e-9) / (first.Pods.Hours() + 1e-9) // a workload may have no job
			for k, ratio := range []float64{
				(r.Wait.Mean + time.Second).Seconds() / (first.Wait.Mean + time.Second).Seconds(),
				(r.Wait.P95 + time.Second).Seconds() / (first.Wait.P95 + time.Second).Seconds(),
				pods, float64(max(1, r.Commits)) / float64(max(1, first.Commits)),
			} {
				logs[k] += math.Log(ratio) / float64(len(models))
			}
			if pods > worst {
				worst, of = pods, cases[i].Workload.Name
			}
			unserved += r.Unserved
		}
		fmt.Fprintf(w, "  %s\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f (%s)\t%d\n", a.Name,
			math.Exp(logs[0]), math.Exp(logs[1]), math.Exp(logs[2]), math.Exp(logs[3]), worst, of, unserved)
	}
	return w.Flush()
}

// seconds formats a wait to a tenth of a second.
func seconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }

// Comparison is the document of --out FILE.json.
type Comparison struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	Seed       uint64           `json:"seed"`
	Scenario   scenarioDocument `json:"scenario"`
	Workloads  []WorkloadEntry  `json:"workloads"`
}

// scenarioDocument is the common scenario of all workloads; times are in seconds.
type scenarioDocument struct {
	Interval   float64 `json:"intervalSeconds"`
	Sync       float64 `json:"syncSeconds"`
	Jitter     float64 `json:"syncJitterSeconds"`
	Notified   float64 `json:"syncNotifiedSeconds"`
	Delivery   float64 `json:"webhookDeliverySeconds"`
	Push       float64 `json:"pushSeconds"`
	Requests   int     `json:"requestsPerMinute"`
	StartupMin float64 `json:"startupMinSeconds"`
	StartupMax float64 `json:"startupMaxSeconds"`
	Max        int     `json:"max"`
	Min        int     `json:"min"`
	Buffer     int     `json:"buffer"`
}

// WorkloadEntry is a workload in the JSON document of muster-sim simulate.
type WorkloadEntry struct {
	Name    string           `json:"name"`
	About   string           `json:"about,omitempty"`
	Hours   float64          `json:"hours"`
	Results []AlgorithmEntry `json:"results"`
}

// AlgorithmEntry is an algorithm in the JSON document of muster-sim simulate.
type AlgorithmEntry struct {
	Algorithm       string      `json:"algorithm"`
	Source          string      `json:"source"`
	Through         string      `json:"through"`
	Jobs            int         `json:"jobs"`
	Unmatched       int         `json:"unmatched"`
	Cancelled       int         `json:"cancelled"`
	Wait            waitsEntry  `json:"wait"`
	Bound           boundsEntry `json:"bound"`
	Agents          int         `json:"agents"`
	Unused          int         `json:"unused"`
	NeverRegistered int         `json:"neverRegistered"`
	IdleHours       float64     `json:"idleHours"`
	PodHours        float64     `json:"podHours"`
	Commits         int         `json:"commits"`
	Unserved        int         `json:"neverServed"`
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

// Compared returns the comparison of a run.
func Compared(cases []simulation.Case, algorithms []simulation.Named, rows []simulation.Row) Comparison {
	w := cases[0].Scenario
	d := Comparison{
		APIVersion: "muster.dev/v1alpha1", Kind: "Simulation", Seed: w.Seed,
		Scenario: scenarioDocument{
			w.Interval.Seconds(), w.Sync.Seconds(), w.Jitter.Seconds(), w.Notified.Seconds(), w.Delivery.Seconds(), w.Push.Seconds(), w.Requests, w.Startup[0].Seconds(), w.Startup[1].Seconds(),
			w.Policy.Max, w.Policy.Min, w.Policy.Buffer,
		},
	}
	for i, c := range cases {
		e := WorkloadEntry{Name: c.Workload.Name, About: c.About, Hours: c.Workload.Length.Hours()}
		for j, a := range algorithms {
			r := rows[i*len(algorithms)+j]
			e.Results = append(e.Results, AlgorithmEntry{
				Algorithm: a.Name, Source: a.Source, Through: a.Transport, Jobs: r.Jobs, Unmatched: r.Unmatched, Cancelled: r.Cancelled,
				Wait: entry(r.Wait), Bound: boundsEntry{entry(r.Bound), r.Jobs}, Agents: r.Agents, Unused: r.Unused,
				NeverRegistered: r.NeverRegistered, IdleHours: r.Idle.Hours(), PodHours: r.Pods.Hours(), Commits: r.Commits, Unserved: r.Unserved,
			})
		}
		d.Workloads = append(d.Workloads, e)
	}
	return d
}

// JSON returns the comparison as a JSON document.
func (d Comparison) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(d, "", "  ")
	return append(text, '\n'), err
}
