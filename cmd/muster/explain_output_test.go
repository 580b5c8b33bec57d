package main

import (
	"bytes"
	"strings"
	"testing"

	"muster/cmd/muster/output"
	"muster/generator/explanation"
)

// TestExplanationCountsAgentsInFlight asserts the printed number of agents in flight of each
// dispatch.
func TestExplanationCountsAgentsInFlight(t *testing.T) {
	var out bytes.Buffer
	x := explanation.Explanation{InFlight: []explanation.InFlight{
		{ID: "a-7f3k9c2b", Agents: 1, Ordered: start, NotAfter: start}, {ID: "a-8g4m0d3c", Agents: 2, Ordered: start, NotAfter: start},
	}}
	check(t, output.PrintExplanations(output.Output{Text: &out}, []explanation.Explanation{x}))
	for _, want := range []string{"a-7f3k9c2b: 1 agent of ", "a-8g4m0d3c: 2 agents of "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}
