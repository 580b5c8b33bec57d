package condition

import (
	"testing"

	"muster/generator/plan"
)

// TestCommand asserts that commands are quoted for a shell and concern the subject or all of
// several, and that each reason has a title.
func TestCommand(t *testing.T) {
	for want, c := range map[string]Condition{
		"muster history linux/large":                {Reason: EditedByHand, Overlay: "linux/large"},
		`muster history 'a'\''; rm -rf $HOME'`:      {Reason: EditedByHand, Overlay: "a'; rm -rf $HOME"},
		"muster history '--all'":                    {Reason: EditedByHand, Overlay: "--all"},
		"muster plan":                               {Reason: NoMatch, Queue: "gpu"},
		"muster init . --queue gpu":                 {Reason: NoOverlay, Queue: "gpu"},
		"muster init . --queue gpu --cluster 'c i'": {Reason: NoOverlay, Queue: "gpu", Cluster: "c i"},
		"kubectl get jobs,pods --all-namespaces --selector=muster.dev/overlay=linux": {Reason: Overdue, Overlay: "linux"},
		"": {Reason: TokenExpires},
	} {
		if got := c.Command(); got != want {
			t.Errorf("%+v: %s, want %s", c, got, want)
		}
	}
	for reason, want := range map[string]string{
		EditedByHand:         "muster history b 'a c'",
		AgentsInOtherQueue:   "",
		string(plan.Invalid): "muster check",
		Overdue:              "kubectl get jobs,pods --all-namespaces --selector='muster.dev/overlay in (b," + plan.Slug("a c") + ")'",
	} {
		if got := Command([]Condition{{Reason: reason, Overlay: "b"}, {Reason: reason, Overlay: "a c"}}); got != want {
			t.Errorf("%s of two overlays: %s, want %s", reason, got, want)
		}
	}
	if got := Command([]Condition{{Reason: NoOverlay, Queue: "gpu"}, {Reason: NoOverlay, Queue: "arm"}}); got != "" {
		t.Errorf("of two queues: %s", got)
	}
	for _, r := range Reasons() {
		if r.Title == "" || r.Remedy == "" {
			t.Errorf("%+v", r)
		}
	}
	for reason := range commands {
		if remedies[reason] == "" {
			t.Errorf("%s has a command and no remedy", reason)
		}
	}
}
