package ledger_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muster/generator/plan"
	"muster/gitops/ledger"
)

// styledAct is an order of two dispatches.
func styledAct() ledger.Act {
	at := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	d := plan.Decision{Overlay: "linux", Queue: "large", Sum: plan.Sum{Pending: 7, Missing: 7, Desired: 7, Max: 10, Room: 10, Dispatch: 7, Demand: 7},
		Dispatch:    []plan.Dispatch{{ID: "linux-a", Agents: 5}, {ID: "linux-b", Agents: 2}},
		Observation: plan.Observation{At: at, Queue: "large", Jobs: []plan.Demand{{Overlays: []string{"linux"}, Pending: 7}}, Overlays: []plan.Supply{{Overlay: "linux"}}}}
	return ledger.Act{Kind: ledger.Dispatch, Path: "overlays/linux", Decision: d}
}

// TestStyle: a fleet's own words, people and marker are in the message, git finds all
// trailers, and it is read back as what it is.
func TestStyle(t *testing.T) {
	t.Parallel()
	parse := func(text string) *ledger.Template {
		t.Helper()
		x, err := ledger.ParseTemplate(text)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	for _, c := range []struct {
		name            string
		style           ledger.Style
		subject, prose  string
		trailers, never string
	}{
		{"conventional", ledger.Style{Template: parse("ci({{.Queue}}): {{.Overlay}}: {{.What}}\n\n{{.Reasons}}")}, "ci(large): linux: dispatch 7 agents", "7 jobs are pending. ", "Muster: v1\nCI: [skip ci]\n", "Summary:"},
		{"without reasons", ledger.Style{Template: parse("{{.Overlay}}: {{.Act}} {{.Agents}}{{if .Probe}} as a probe{{end}}")}, "linux: dispatch 7", "", "Summary: dispatch 7 agents\nCI: [skip ci]\n", "pending."},
		{"lists", ledger.Style{Template: parse("[{{.Overlay}}: {{.What}}]\n{{range .Dispatches -}}\n- {{.}}\n{{end}}for {{join .Dispatches \" and \"}}")}, "[linux: dispatch 7 agents]", "- linux-a\n- linux-b\nfor linux-a and linux-b", "Summary: dispatch 7 agents\nCI: [skip ci]\n", ""},
		{"people", ledger.Style{SignOff: "Ada <ada@example.com>", CoAuthors: []string{"Bob <bob@example.com>", "Eve <eve@example.com>"}, Skip: "skip-checks:true"}, "linux: dispatch 7 agents", "7 jobs are pending. ",
			"Signed-off-by: Ada <ada@example.com>\nCo-authored-by: Bob <bob@example.com>\nCo-authored-by: Eve <eve@example.com>\nCI: skip-checks:true\n", "[skip ci]"},
		{"no marker", ledger.Style{NoSkip: true}, "linux: dispatch 7 agents", "7 jobs are pending. ", "Muster: v1\n", "CI:"},
	} {
		if err := c.style.Check(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		message := c.style.Message(styledAct(), "v1")
		e, err := ledger.Parse(message)
		if err != nil {
			t.Errorf("%s: %v of\n%s", c.name, err, message)
			continue
		}
		if e.Subject != c.subject || !strings.HasPrefix(e.Prose, c.prose) || e.Agents != 7 || len(e.Dispatches) != 2 || !cmp.Equal(e.Observation, styledAct().Decision.Observation) {
			t.Errorf("%s is read as %q, %q, %d agents", c.name, e.Subject, e.Prose, e.Agents)
		}
		if e.Summary != "dispatch 7 agents" {
			t.Errorf("%s: what was done is read as %q", c.name, e.Summary)
		}
		if !strings.HasSuffix(message, c.trailers) || c.never != "" && strings.Contains(message, c.never) {
			t.Errorf("%s ends otherwise, or has %q:\n%s", c.name, c.never, message)
		}
		git := exec.Command("git", "interpret-trailers", "--parse", "--no-divider")
		git.Stdin = strings.NewReader(message)
		out, err := git.Output()
		if want := message[strings.LastIndex(message, "\n\n")+2:]; err != nil || string(out) != want {
			t.Errorf("%s: git finds the trailers\n%s%v, want\n%s", c.name, out, err, want)
		}
	}
}

// TestTemplateMistakes: what a template must not have, or lacks, is said when it is read.
func TestTemplateMistakes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                 `the first line is ""`,
		"scale {{.Overlay}}":               `the first line is "scale example": it needs`,
		"{{.Overlay}}: {{.What}} {{.Wat}}": ".Wat is no field: there are Act, Agents, ",
		"{{.Overlay}}: {{.What}}{{if .Probe}}{{.Wat}}{{end}}":       ".Wat is no field",
		"{{.Overlay}}: {{.What}}{{range .Dispatches}}{{.A}}{{end}}": ".A is no field",
		"{{.Overlay}}: {{.What":                                     "unclosed action",
		"{{.Overlay}}: {{.What | print}}":                           `function "print" not defined`,
		"{{.Overlay}}: {{.What | join}}":                            "there are no pipelines",
		"{{$x := .Act}}{{.Overlay}}: {{$x}}":                        "there are no pipelines and no variables",
		"{{join .Dispatches}}":                                      `write {{join .Dispatches ", "}}`,
		"{{with .Act}}{{.}}{{end}}":                                 "is more than muster reads of a template",
		`{{define "x"}}{{end}}{{.Overlay}}: {{.What}}`:              "the template defines others",
		strings.Repeat("x", 20_000):                                 "the template has 20000 bytes, at most 16384 are read",
		`{{range .Dispatches}}{{range .Dispatches}}{{range .Dispatches}}x{{end}}{{end}}{{end}}`: "the first line is",
	} {
		if _, err := ledger.ParseTemplate(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
	for _, s := range []ledger.Style{{SignOff: "Ada"}, {CoAuthors: []string{"Ada <ada@x>\nAct: retire"}}, {Skip: "a\nb"}, {Skip: " x"}, {Skip: "x", NoSkip: true}} {
		if s.Check() == nil {
			t.Errorf("%+v is taken", s)
		}
	}
}

// TestTemplateCannotForge: a template that writes trailers of its own does not change
// what is read back.
func TestTemplateCannotForge(t *testing.T) {
	t.Parallel()
	x, err := ledger.ParseTemplate("{{.Overlay}}: {{.What}}\n\nAct: retire\nAgents: 99\nOverlay: overlays/other")
	if err != nil {
		t.Fatal(err)
	}
	e, err := ledger.Parse(ledger.Style{Template: x}.Message(styledAct(), "v1"))
	if err != nil || e.Kind != ledger.Dispatch || e.Agents != 7 || e.Overlay != "overlays/linux" {
		t.Errorf("it is read as %s of %d agents in %s, %v", e.Kind, e.Agents, e.Overlay, err)
	}
}

// FuzzTemplate: no template breaks anything, and what one makes is read back.
func FuzzTemplate(f *testing.F) {
	for _, text := range []string{"{{.Overlay}}: {{.What}}", "x {{.Overlay}}: {{.Act}} {{range .Dispatches}}{{.}}{{else}}none{{end}}", "{{if .Agents}}{{.Overlay}}: {{.What}}{{end}}\n\n# {{.Reasons}}\n---\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		x, err := ledger.ParseTemplate(text)
		if err != nil {
			return
		}
		message := ledger.Style{Template: x}.Message(styledAct(), "v1")
		if e, err := ledger.Parse(message); err != nil || e.Agents != 7 {
			t.Errorf("%q makes\n%s\nwhich is read as %d agents, %v", text, message, e.Agents, err)
		}
	})
}

// TestSummaryForged: a summary that is not the act's own differs.
func TestSummaryForged(t *testing.T) {
	t.Parallel()
	x, err := ledger.ParseTemplate("{{.Overlay}}: {{.Act}} them")
	if err != nil {
		t.Fatal(err)
	}
	message := ledger.Style{Template: x}.Message(styledAct(), "v1")
	if got := ledger.Differing(message, styledAct(), "v1"); len(got) > 0 {
		t.Errorf("%q differ in\n%s", got, message)
	}
	forged := strings.Replace(message, "Summary: dispatch 7 agents", "Summary: dispatch 1 agent as a probe", 1)
	if got := ledger.Differing(forged, styledAct(), "v1"); !cmp.Equal(got, []string{"Summary"}) {
		t.Errorf("%q differ in\n%s", got, forged)
	}
}
