package main

import (
	"muster/cmd/muster/chart"
	"muster/generator/simulation"
)

// measure is a number that a run came to, as a chart shows it.
type measure struct {
	chart.Band
	value func(simulation.Row) float64
	bound func(simulation.Row) float64 // optional
}

func measures() []measure {
	return []measure{
		{
			Band: chart.Band{
				Title: "p95 wait, seconds", Unit: "s", Least: 10,
				Line: "the lower bound with one agent for each job, started once the job is known; who waits less starts agents early",
			},
			value: func(r simulation.Row) float64 { return r.Wait.P95.Seconds() },
			bound: func(r simulation.Row) float64 { return r.Bound.P95.Seconds() },
		},
		{
			Band:  chart.Band{Title: "Agents started in vain, for each 100 jobs", Least: 10},
			value: func(r simulation.Row) float64 { return 100 * float64(r.InVain) / float64(max(1, r.Jobs)) },
		},
		{
			Band:  chart.Band{Title: "Agents waiting for work, hours of all together", Unit: "h", Least: 24},
			value: func(r simulation.Row) float64 { return r.Idle.Hours() },
		},
	}
}

// comparisonChart draws what the table says of waits and waste.
func comparisonChart(cases []simulation.Case, algorithms []simulation.Named, rows []simulation.Row) []byte {
	c := chart.Bars{
		Title: "Waits and waste, by workload and algorithm",
		Keys:  [2]string{"muster", "others, by their published rules; each panel has a linear scale of its own"},
	}
	for _, x := range cases {
		c.Columns = append(c.Columns, x.Workload.Name)
	}
	for _, a := range algorithms {
		c.Names = append(c.Names, a.Name)
		if _, own := a.New().(*simulation.Muster); own {
			c.Marked++
		}
	}
	for _, m := range measures() {
		band := m.Band
		for i := range cases {
			var p chart.Panel
			for _, r := range rows[i*len(algorithms):][:len(algorithms)] {
				p.Values = append(p.Values, m.value(r))
				if m.bound != nil {
					p.Line = append(p.Line, m.bound(r))
				}
			}
			band.Panels = append(band.Panels, p)
		}
		c.Bands = append(c.Bands, band)
	}
	return c.SVG()
}
