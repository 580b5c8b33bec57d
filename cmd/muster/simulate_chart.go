package main

import (
	"math"
	"slices"
	"time"

	"muster/cmd/muster/chart"
	"muster/generator/simulation"
)

// drawn are the algorithms that charts show, in this order.
var drawn = []string{"muster", "muster-told-reuse", "agent-stack-k8s", "keda-accurate", "elastic-ci-stack"}

// inChart returns which of the algorithms a chart shows: those of drawn, then others in
// their order, at most as many as a chart can distinguish.
func inChart(algorithms []string) []string {
	var shown []string
	for _, name := range slices.Concat(drawn, algorithms) {
		if slices.Contains(algorithms, name) && !slices.Contains(shown, name) && len(shown) < chart.MaxSeries {
			shown = append(shown, name)
		}
	}
	return shown
}

// chart draws waits and costs, a row for each workload.
func (d comparison) chart() []byte {
	var names []string
	for _, r := range d.Workloads[0].Results {
		names = append(names, r.Algorithm)
	}
	c := chart.Dots{Title: "Waits and their cost, by workload", Series: inChart(names)}
	waits := chart.Column{Title: "p95 wait, seconds", Least: 10}
	costs := chart.Column{Title: "pod-minutes per job, relative to " + c.Series[0], Least: 0.4}
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

// dayChart draws a workload by the hour: agents and waits.
func dayChart(played simulation.Case, algorithms []simulation.Named, rows []simulation.Row) []byte {
	start := played.Workload.Start
	if start.IsZero() {
		start = simulation.Start()
	}
	var names []string
	for _, a := range algorithms {
		names = append(names, a.Name)
	}
	c := chart.Curves{Title: played.Workload.Name + ", hour by hour, from " + start.Format("2 January 2006, 15:04 MST"), Series: inChart(names)}
	hours := int((played.Workload.Length + time.Hour - 1) / time.Hour)
	for i := range hours {
		c.Times = append(c.Times, start.Add(time.Duration(i)*time.Hour))
	}
	waits := chart.Band{Title: "p95 wait of the jobs that became runnable in the hour, seconds"}
	agents := chart.Band{Title: "agents connected, average of the hour"}
	for _, name := range c.Series {
		row := rows[slices.Index(names, name)]
		var wait, connected []float64
		for i := range min(hours, len(row.ByHour)) {
			wait = append(wait, row.WaitByHour[i].Seconds())
			connected = append(connected, row.ByHour[i].Hours())
		}
		waits.Values, agents.Values = append(waits.Values, wait), append(agents.Values, connected)
	}
	c.Bands = []chart.Band{waits, agents}
	return c.SVG()
}
