package main

import (
	"slices"
	"strings"
	"time"

	"muster/cmd/muster/chart"
	"muster/generator/simulation"
)

// chart draws waits against cost, a panel for each workload. Of the rivals those are drawn
// that act on their cluster themselves: the table has their rules in muster's transport.
func (d comparison) chart() []byte {
	c := chart.Panels{
		Title: "What a short wait costs, by workload",
		Keys: [3]string{
			"policies of muster, and the line below which none of them is", "others, each in its own transport", "the lower bound with one agent for each job, through git",
		},
		X: "pod-minutes for each job, logarithmic", Y: "p95 wait, seconds",
	}
	for _, w := range d.Workloads {
		p := chart.Panel{Title: w.Name, Line: w.Results[0].Bound.Wait.P95}
		for _, r := range w.Results {
			policy := strings.HasPrefix(r.Algorithm, "muster")
			if !policy && r.Through == simulation.ThroughGit {
				continue
			}
			p.Points = append(p.Points, chart.Point{
				Name: strings.TrimPrefix(r.Algorithm, "muster-"), X: 60 * r.PodHours / float64(max(1, r.Jobs)), Y: r.Wait.P95, Marked: policy,
			})
		}
		c.Panels = append(c.Panels, p)
	}
	return c.SVG()
}

// inDay are those whose day is drawn, as far as they were played.
var inDay = []string{"muster", "muster-told-buffer-4", "elastic-ci-stack", "agent-stack-k8s"}

// dayChart draws a workload by the hour: agents and waits, of a few algorithms.
func dayChart(played simulation.Case, algorithms []simulation.Named, rows []simulation.Row) []byte {
	start := played.Workload.Start
	if start.IsZero() {
		start = simulation.Start()
	}
	t := chart.Timeline{Title: played.Workload.Name + ", hour by hour"}
	hours := int(played.Workload.Length/time.Hour) + 1
	for i := range hours {
		t.Times = append(t.Times, start.Add(time.Duration(i)*time.Hour))
	}
	for j, a := range algorithms {
		if !slices.Contains(inDay, a.Name) {
			continue
		}
		agents, waits := chart.Series{Name: "agents"}, chart.Series{Name: "p95 wait"}
		for i := range min(hours, len(rows[j].ByHour)) {
			agents.Values = append(agents.Values, rows[j].ByHour[i].Hours())
			waits.Values = append(waits.Values, rows[j].WaitByHour[i].Seconds())
		}
		t.Bands = append(t.Bands,
			chart.Stack{Title: a.Name + ": agents connected, on average", Series: []chart.Series{agents}},
			chart.Stack{Title: a.Name + ": p95 wait of the jobs that came in the hour, seconds", Series: []chart.Series{waits}})
	}
	return t.SVG()
}
