package plan_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/tools/txtar"
	"pgregory.net/rapid"

	"muster/generator/ledger"
	"muster/generator/plan"
)

// TestCommitBodyAddsUp parses commit messages of random decisions, and asserts that the
// quantities in them add up to the number of agents ordered, and that the observation is
// read back.
func TestCommitBodyAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, d := range plan.DrawDecisions(t) {
			if wrong := readBack(d); wrong != "" {
				t.Fatal(wrong)
			}
			op := ledger.Draft{Kind: ledger.Repair, Path: "overlays/" + d.Overlay, Base: "c0ffee", Decision: d}
			for _, kind := range ledger.Kinds() {
				if other := op; len(op.Operation("").Orders) == 0 {
					if other.Kind = kind; len(other.Operation("").Orders) > 0 {
						op = other
					}
				}
			}
			e, err := ledger.Parse(ledger.Message(op, "v1"))
			if err != nil {
				t.Fatal(err)
			}
			diff := cmp.Diff(d.Observation, e.Observation, cmpopts.EquateEmpty(), cmp.Comparer(sameIndexes))
			if diff != "" {
				t.Fatalf("the observation is read back (-want +got)\n%s", diff)
			}
		}
	})
}

func sameIndexes(a, b plan.IndexSet) bool { return a.String() == b.String() }

// TestCommitBodiesOfCases makes the same assertion for every case. If agents are idle or
// in flight and more are ordered, the message must say why. It is compared with the case's
// own message if there is one.
func TestCommitBodiesOfCases(t *testing.T) {
	beside := 0
	for file, decisions := range plan.CaseDecisions(t, 0) {
		var messages strings.Builder
		for _, d := range decisions {
			if wrong := readBack(d); wrong != "" {
				t.Errorf("%s: %s", file, wrong)
			}
			if len(d.Dispatch) == 0 {
				continue
			}
			if d.Figures.Idle+d.Figures.InFlight > 0 {
				beside++
			}
			messages.WriteString(body(d) + "\n")
		}
		wantMessage(t, file, messages.String())
	}
	if beside < 10 {
		t.Errorf("only %d orders are beside agents that are idle or in flight", beside)
	}
}

// wantMessage compares the messages of a case's orders with its file "message".
func wantMessage(t *testing.T, file, got string) {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	last := &archive.Files[len(archive.Files)-1]
	switch {
	case last.Name != "message":
	case plan.UpdateCases():
		last.Data = []byte(got)
		if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		if diff := cmp.Diff(string(last.Data), got); diff != "" {
			t.Errorf("%s: run with -update (-want +got):\n%s", file, diff)
		}
	}
}

// body is what the commit of an order says to people.
func body(d plan.Decision) string {
	return ledger.Text(ledger.Draft{Kind: ledger.Dispatch, Path: "overlays/" + d.Overlay, Decision: d})
}

// quantities are the figures of a commit body, each in the group of an expression; "no" is
// zero. A quantity that a body does not state is zero, or no limit.
var quantities = map[string]*regexp.Regexp{
	"pending":       regexp.MustCompile(`(\w+) jobs? (?:is|are) pending`),
	"otherOverlays": regexp.MustCompile(`and (\d+) of them (?:is|are) assigned to `),
	"lookahead":     regexp.MustCompile(`look-ahead adds (\d+) upcoming`),
	"buffer":        regexp.MustCompile(`; the buffer adds (\d+) idle agents?`),
	"idle":          regexp.MustCompile(`(\w+) agents? (?:is|are) idle and`),
	"inFlight":      regexp.MustCompile(` idle and (\w+) (?:is|are) in flight`),
	"replacing":     regexp.MustCompile(`(\d+) idle agents? (?:is|are) close to`),
	"overdue":       regexp.MustCompile(`(\d+) in flight (?:is|are) overdue`),
	"nonMatching":   regexp.MustCompile(`(\d+) of them cannot serve these jobs`),
	"missing":       regexp.MustCompile(`so (\d+) (?:is|are) missing`),
	"asked":         regexp.MustCompile(`The minimum of \d+ requires (\d+) agent`),
	"min":           regexp.MustCompile(`The minimum of (\d+) requires`),
	"current":       regexp.MustCompile(`The overlay has (\d+) agents? \(`),
	"stopping":      regexp.MustCompile(`and (\d+) more that (?:is|are) stopping`),
	"max":           regexp.MustCompile(`the maximum of (\d+) allows`),
	"room":          regexp.MustCompile(`allows (\d+) more`),
	"atFirst":       regexp.MustCompile(`until one \w+, (\d+) (?:more )?now\.`),
	"perHour":       regexp.MustCompile(`in an hour: (\d+) of them`),
	"atOnce":        regexp.MustCompile(`One commit orders at most (\d+) agent`),
	"needed":        regexp.MustCompile(`(\d+) agents? (?:is|are) needed, but only`),
	"only":          regexp.MustCompile(`needed, but only (\d+) (?:is|are) dispatched`),
	"ordered":       regexp.MustCompile(`: dispatch (\d+) agent`),
	"demand":        regexp.MustCompile(`(\d+) agents? (?:is|are) for jobs and`),
	"pool":          regexp.MustCompile(`for jobs and (\d+) for the warm pool`),
}

// readBack describes how the quantities of a commit body do not add up; it is empty if
// they do, or if nothing is ordered.
func readBack(d plan.Decision) string {
	if len(d.Dispatch) == 0 {
		return ""
	}
	text := body(d)
	line := strings.Join(strings.Fields(text), " ")
	n, stated := map[string]int{}, map[string]bool{}
	for name, pattern := range quantities {
		if found := pattern.FindStringSubmatch(line); found != nil {
			n[name], _ = strconv.Atoi(found[1])
			stated[name] = true
		}
	}
	missing := n["pending"] - n["otherOverlays"] + n["lookahead"] + n["buffer"] - (n["idle"] - n["replacing"]) - (n["inFlight"] - n["overdue"]) + n["nonMatching"]
	wanted := max(0, missing)
	if stated["min"] {
		wanted = n["min"] - (n["current"] - n["replacing"] - n["overdue"])
	}
	dispatch := min(wanted, n["room"])
	for _, limit := range []string{"atFirst", "perHour", "atOnce"} {
		if stated[limit] {
			dispatch = min(dispatch, n[limit])
		}
	}
	if d.Trial {
		dispatch = 1
	}
	total := 0
	for _, x := range d.Dispatch {
		total += x.Agents
	}
	for _, c := range []struct {
		what         string
		stated       bool
		value, wants int
	}{
		{"missing", true, n["missing"], max(0, missing)},
		{"asked for by the minimum", stated["min"], n["asked"], wanted},
		{"room", true, n["room"], max(0, n["max"]-n["current"]-n["stopping"])},
		{"needed", stated["needed"], n["needed"], wanted},
		{"only dispatched", stated["only"], n["only"], dispatch},
		{"for jobs and the warm pool", stated["demand"], n["demand"] + n["pool"], dispatch},
		{"dispatched", true, n["ordered"], dispatch},
		{"agents of the dispatches", true, total, dispatch},
	} {
		if c.stated && c.value != c.wants {
			return fmt.Sprintf("%s: %d, and the other quantities make it %d:\n%s\n%+v", c.what, c.value, c.wants, text, d.Figures)
		}
	}
	switch {
	case !stated["pending"] || !stated["max"]:
		return "the message states neither jobs nor room:\n" + text
	case stated["needed"] != (wanted > dispatch):
		return "the message does not say that fewer are dispatched than needed:\n" + text
	}
	return ""
}
