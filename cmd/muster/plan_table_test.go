package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"muster/cmd/output"
	"muster/generator"
	"muster/generator/plan"

	"pgregory.net/rapid"
)

// drawQueue returns a queue with up to three overlays, which may be paused, be backing off, or
// have a limit per hour.
func drawQueue(t *rapid.T) ([]plan.Overlay, plan.Observation) {
	var overlays []plan.Overlay
	o := plan.Observation{At: start, Queue: "default"}
	for i := range rapid.IntRange(1, 3).Draw(t, "overlays") {
		v := plan.Overlay{Name: fmt.Sprintf("overlay-%d", i)}
		v.Policy = plan.Policy{
			Queue: "default", Min: rapid.IntRange(0, 3).Draw(t, "min"), Max: rapid.IntRange(3, 12).Draw(t, "max"), Buffer: rapid.IntRange(0, 2).Draw(t, "buffer"),
			MaxPerHour: rapid.SampledFrom([]int{0, 4}).Draw(t, "maxPerHour"), Lease: time.Hour, LeaseAuto: rapid.Bool().Draw(t, "lease: auto"), IdleTimeout: time.Minute, WarmIdleTimeout: time.Hour,
			Priority: rapid.IntRange(0, 1).Draw(t, "priority"), Paused: rapid.IntRange(0, 4).Draw(t, "paused") == 0,
		}
		if rapid.IntRange(0, 4).Draw(t, "breaker") == 0 {
			v.State.Breaker = plan.Breaker{Failures: 3, At: start.Add(-time.Duration(rapid.IntRange(0, 2).Draw(t, "minutes")) * time.Minute), Cause: plan.NeverRegistered}
		} else if n := rapid.IntRange(0, 4).Draw(t, "in flight"); n > 0 {
			v.Dispatches = []plan.Dispatch{{ID: v.Name + "-1", Agents: n, At: start, NotAfter: start.Add(time.Hour), Purpose: plan.ForDemand}}
		}
		overlays = append(overlays, v)
		busy := rapid.IntRange(0, 3).Draw(t, "busy")
		o.Overlays = append(o.Overlays, plan.Capacity{Overlay: v.Name, Busy: busy, QueueBusy: 9, Own: busy, Stopping: rapid.IntRange(0, 1).Draw(t, "stopping"), MaxJobs: rapid.SampledFrom([]int{0, 4}).Draw(t, "Jobs in a commit")})
	}
	for i := range rapid.IntRange(1, 2).Draw(t, "groups") {
		serving := o.Overlays[min(i, len(overlays)-1):]
		d := plan.Demand{Pending: rapid.IntRange(0, 20).Draw(t, "pending")}
		for _, s := range serving {
			d.Overlays = append(d.Overlays, s.Overlay)
		}
		o.Jobs = append(o.Jobs, d)
	}
	return overlays, o
}

// TestPrintedRowsAgree evaluates the formula on the rows of the table, and compares the
// arithmetic printed below it with them. A column that is left out is zero.
func TestPrintedRowsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		overlays, o := drawQueue(t)
		r := generator.Result{Decisions: plan.Decide("c0ffee", overlays, o)}
		for _, d := range r.Decisions {
			if d.Suspended.Active() {
				r.Suspended = append(r.Suspended, generator.Suspended{Overlay: d.Overlay, Why: d.Suspended})
			}
		}
		var text bytes.Buffer
		check(t, printSums(output.Output{Text: &text}, r, r.Conditions(r.Input.Snapshot.At)))
		parts := strings.Split(text.String(), "\n\n")
		rows := strings.Split(strings.TrimSpace(parts[1]), "\n")
		head := strings.Fields(rows[0])
		if len(rows) != len(r.Decisions)+1 {
			t.Fatalf("%d rows of %d overlays:\n%s", len(rows)-1, len(r.Decisions), &text)
		}
		printed := 0
		for _, row := range rows[1:] {
			cells, terms := strings.Fields(row), map[string]int{}
			for i, name := range head[:slices.Index(head, "STATE")] {
				terms[term(name)], _ = strconv.Atoi(cells[i])
			}
			for _, limit := range []string{"LEFT-AT-FIRST", "LEFT-THIS-HOUR", "MAX-AT-ONCE"} {
				if i := slices.Index(head, limit); i < 0 || cells[i] == output.Unknown {
					terms[term(limit)] = math.MaxInt
				}
			}
			state := cells[slices.Index(head, "STATE")]
			isTrial := func(d plan.Decision) bool { return d.Overlay == cells[0] && d.Trial }
			trial := slices.ContainsFunc(r.Decisions, isTrial)
			for line := range strings.SplitSeq(strings.TrimSpace(plan.Formula), "\n") {
				if got, want := printedTerm(t, line, terms, state, trial), terms[strings.Fields(line)[0]]; got != want {
					t.Fatalf("%q makes it %d, and %d is printed:\n%s", line, got, want, &text)
				}
			}
			for _, block := range parts[2:] {
				steps := strings.Split(strings.TrimSpace(block), "\n")
				if steps[0] != cells[0] {
					continue
				}
				printed++
				for _, step := range steps[1:] {
					words := strings.Fields(step)
					if n, err := strconv.Atoi(words[1]); err != nil || n != terms[words[0]] {
						t.Fatalf("%q is not the row's %d:\n%s", step, terms[words[0]], &text)
					}
				}
			}
		}
		if printed != len(parts)-2 {
			t.Fatalf("%d of %d blocks belong to a row:\n%s", printed, len(parts)-2, &text)
		}
	})
}

// term returns the formula's name of a column.
func term(column string) string {
	first, rest, _ := strings.Cut(strings.ToLower(column), "-")
	for part := range strings.SplitSeq(rest, "-") {
		if part != "" {
			first += strings.ToUpper(part[:1]) + part[1:]
		}
	}
	return first
}

// printedTerm evaluates a line of the formula on a row.
func printedTerm(t *rapid.T, line string, terms map[string]int, state string, trial bool) int {
	_, expression, _ := strings.Cut(line, " = ")
	end := strings.LastIndexByte(expression, ')') + 1
	parsed, err := parser.ParseExpr(expression[:end])
	check(t, err)
	n := evaluated(parsed, terms)
	switch but := expression[end:]; {
	case strings.Contains(but, "1 for a trial") && trial:
		return 1
	case strings.Contains(but, "0 while suspended") && slices.Contains(plan.SuspensionCodes(), plan.SuspensionCode(state)):
		return 0
	}
	return n
}

// evaluated returns the value of an expression of +, -, max and min.
func evaluated(e ast.Expr, terms map[string]int) int {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return evaluated(e.X, terms)
	case *ast.Ident:
		return terms[e.Name]
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return evaluated(e.X, terms) + evaluated(e.Y, terms)
		}
		return evaluated(e.X, terms) - evaluated(e.Y, terms)
	case *ast.CallExpr:
		var values []int
		for _, x := range e.Args {
			values = append(values, evaluated(x, terms))
		}
		if e.Fun.(*ast.Ident).Name == "max" {
			return slices.Max(values)
		}
		return slices.Min(values)
	}
	return 0 // the only number of the formula
}

// TestBriefTable asserts that the brief table of plan fits a terminal of 100 columns with any names, each still
// recognizable, and that each overlay has a sentence.
func TestBriefTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		overlays, o := drawQueue(t)
		r := generator.Result{Decisions: plan.Decide("c0ffee", overlays, o)}
		long := strings.Repeat(rapid.SampledFrom([]string{"x", "é", "linux/"}).Draw(t, "letter"), rapid.IntRange(1, 200).Draw(t, "length"))
		for i := range r.Decisions {
			r.Decisions[i].Overlay = fmt.Sprintf("%s-%d", long, i)
			if d := r.Decisions[i]; d.Suspended.Active() {
				r.Suspended = append(r.Suspended, generator.Suspended{Overlay: d.Overlay, Why: d.Suspended})
			}
		}
		conditions := r.Conditions(start)
		var text bytes.Buffer
		check(t, output.BriefTable(r, conditions).Write(output.Output{Text: &text}))
		rows := strings.Split(strings.TrimSpace(text.String()), "\n")
		if want := "OVERLAY PENDING OLDEST IDLE IN-FLIGHT BUSY MAX DISPATCH STATE"; strings.Join(strings.Fields(rows[0]), " ") != want {
			t.Fatalf("the head is %s, want %s", rows[0], want)
		}
		for i, row := range rows {
			if n := utf8.RuneCountInString(row); n > 100 {
				t.Fatalf("%d columns: %s", n, row)
			}
			if i > 0 && !strings.HasSuffix(strings.Fields(row)[0], fmt.Sprintf("-%d", i-1)) {
				t.Fatalf("overlay %d is %s", i-1, row)
			}
		}
		sentences := output.PlanSentences(r, conditions)
		for i, d := range r.Decisions {
			if len(sentences) != len(r.Decisions) || !strings.HasPrefix(sentences[i], d.Overlay+": ") || strings.ContainsRune(sentences[i], '\n') {
				t.Fatalf("sentences %q", sentences)
			}
		}
	})
}

// TestUnreadableOverlayHasNoFigures asserts that an overlay with an invalid policy has no
// figures.
func TestUnreadableOverlayHasNoFigures(t *testing.T) {
	r := generator.Result{Suspended: []generator.Suspended{{Overlay: "broken", Why: plan.Suspension{Code: plan.Invalid, Finding: "x: y\nz"}}}}
	var text bytes.Buffer
	check(t, output.OverlayTable(r, r.Conditions(time.Time{})).Write(output.Output{Text: &text}))
	row := strings.Fields(strings.Split(text.String(), "\n")[1])
	if row[0] != "broken" || slices.ContainsFunc(row[1:], func(cell string) bool { _, err := strconv.Atoi(cell); return err == nil }) {
		t.Errorf("printed:\n%s", &text)
	}
	if !strings.HasSuffix(text.String(), " Invalid  x: y | z\n") {
		t.Errorf("printed:\n%s", &text)
	}
}

// TestShortAge asserts that ages are formatted as kubectl does.
func TestShortAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 119 * time.Second: "119s", 125 * time.Second: "2m5s", 3 * time.Minute: "3m", 61 * time.Minute: "61m",
		200 * time.Minute: "3h20m", 5 * time.Hour: "5h", 30 * time.Hour: "30h", 50 * time.Hour: "2d",
	} {
		if got := output.ShortAge(d); got != want {
			t.Errorf("%s is %q, want %q", d, got, want)
		}
	}
}
