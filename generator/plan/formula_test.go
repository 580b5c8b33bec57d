package plan

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

// TestFormulaIsWrittenOnce: the pages about the decision say what [Formula] says, word for
// word.
func TestFormulaIsWrittenOnce(t *testing.T) {
	docs := filepath.Join("..", "..", "docs")
	for _, page := range []string{"reference", "explanation"} {
		text, err := os.ReadFile(filepath.Join(docs, page, "decision.md"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "\n"+Formula) {
			t.Errorf("docs/%s/decision.md does not have the formula:\n%s", page, Formula)
		}
	}
}

// formulaCases are the decisions of every case, also with few Jobs in a commit.
func formulaCases(t *testing.T) map[string]Decision {
	t.Helper()
	all := map[string]Decision{}
	for _, most := range []int{0, 3} {
		for file, decisions := range CaseDecisions(t, most) {
			for _, d := range decisions {
				all[fmt.Sprintf("%s, %s, %d Jobs in a commit", file, d.Overlay, most)] = d
			}
		}
	}
	if len(all) < 30 {
		t.Fatalf("only %d decisions", len(all))
	}
	return all
}

// TestFormula evaluates the text of the formula on the sums of every case, and compares
// the results with the decisions. It asserts that each term matters in some case: without
// it the formula is wrong there.
func TestFormula(t *testing.T) {
	needed := map[string]bool{}
	for name := range identifiers() {
		needed[name] = false
	}
	for name, d := range formulaCases(t) {
		for _, wrong := range againstFormula(t, d, "") {
			t.Errorf("%s: %s", name, wrong)
		}
		for term := range needed {
			needed[term] = needed[term] || len(againstFormula(t, d, term)) > 0
		}
	}
	for term, ok := range needed {
		if !ok {
			t.Errorf("in no case the formula needs %q", term)
		}
	}
}

// identifiers are the names that the formula uses, and its two exceptions.
func identifiers() map[string]bool {
	all := map[string]bool{"suspended": true, "trial": true}
	for line := range strings.Lines(Formula) {
		_, rest, _ := strings.Cut(line, " = ")
		for _, word := range strings.FieldsFunc(rest[:strings.LastIndexByte(rest, ')')], func(c rune) bool { return !unicode.IsLetter(c) }) {
			all[word] = true
		}
	}
	return all
}

// againstFormula compares a decision's sum with the result of the formula, without one of
// its terms unless that is empty.
func againstFormula(t rapid.TB, d Decision, without string) (wrong []string) {
	text, err := json.Marshal(d.Figures)
	if err != nil {
		t.Fatal(err)
	}
	terms := map[string]int{}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Figures]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "limits" {
			continue
		}
		terms[name] = int(reflect.ValueOf(d.Figures).FieldByIndex(field.Index).Int())
	}
	figures := maps.Clone(terms)
	terms[without] = 0
	for _, term := range LimitTerms() {
		left, limited := d.Figures.Left(term)
		if terms[term] = left; !limited || without == term {
			terms[term] = math.MaxInt
		}
	}
	for line := range strings.SplitSeq(strings.TrimSpace(Formula), "\n") {
		name, rest, _ := strings.Cut(line, " = ")
		name = strings.TrimSpace(name)
		end := strings.LastIndexByte(rest, ')') + 1
		rest, exception := rest[:end], strings.TrimPrefix(rest[end:], ", ")
		got := evaluate(t, rest, terms)
		switch {
		case exception == "":
		case exception != "0 while suspended, 1 for a trial":
			t.Fatalf("the formula has %q", exception)
		case d.Suspended.Active() && without != "suspended":
			got = 0
		case d.Trial && without != "trial":
			got = 1
		}
		if want := figures[name]; got != want {
			wrong = append(wrong, fmt.Sprintf("%s is %d, the formula %q makes it %d of %s", name, want, line, got, text))
		}
	}
	return wrong
}

// evaluate works out an expression of +, -, max, min and the terms by name.
func evaluate(t rapid.TB, expression string, terms map[string]int) int {
	e, err := parser.ParseExpr(expression)
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	var value func(e ast.Expr) int
	value = func(e ast.Expr) int {
		switch e := e.(type) {
		case *ast.ParenExpr:
			return value(e.X)
		case *ast.BasicLit:
			n, _ := strconv.Atoi(e.Value)
			return n
		case *ast.Ident:
			n, ok := terms[e.Name]
			if !ok {
				t.Fatalf("%s: there is no figure %q", expression, e.Name)
			}
			return n
		case *ast.BinaryExpr:
			if e.Op == token.ADD {
				return value(e.X) + value(e.Y)
			}
			return value(e.X) - value(e.Y)
		case *ast.CallExpr:
			var values []int
			for _, x := range e.Args {
				values = append(values, value(x))
			}
			if e.Fun.(*ast.Ident).Name == "max" {
				return slices.Max(values)
			}
			return slices.Min(values)
		}
		t.Fatalf("%s: what is %T?", expression, e)
		return 0
	}
	return value(e)
}

// TestSteps: in every case, and at random, the terms of a step come to its value within
// its bounds, in the words of the formula, and the limits say exactly what is missing. At
// random, the text of the formula has the same results too.
func TestSteps(t *testing.T) {
	limited, active := map[string]int{}, map[string]int{}
	for name, d := range formulaCases(t) {
		if wrong := againstSteps(d); wrong != "" {
			t.Errorf("%s: %s", name, wrong)
		}
		for _, l := range d.Limits() {
			limited[l.Name]++
		}
		for _, s := range d.Steps() {
			for _, b := range s.ActiveBounds() {
				active[b.Name]++
			}
		}
	}
	for _, name := range []string{"max", "firstAgents", "maxPerHour", "commit", "trial", string(Paused)} {
		if limited[name] == 0 {
			t.Errorf("no case is limited by %s: %v", name, limited)
		}
	}
	for _, name := range []string{"", "min", "room", "leftAtFirst", "leftThisHour", "maxAtOnce", "suspended", "trial"} {
		if active[name] == 0 {
			t.Errorf("in no case a step is bounded by %q: %v", name, active)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		fleet := drawLife(t)
		for _, d := range fleet.decide() {
			for _, wrong := range append(againstFormula(t, d, ""), againstSteps(d)) {
				if wrong != "" {
					t.Fatalf("%s: %s\n%s", d.Overlay, wrong, fleet)
				}
			}
		}
	})
}

// againstSteps says what is wrong with a decision's steps and limits.
func againstSteps(d Decision) string {
	lines := strings.Split(strings.TrimSpace(Formula), "\n")
	steps := d.Steps()
	if len(steps) != len(lines) {
		return "not a step for each line of the formula"
	}
	short := 0
	for i, s := range steps {
		n := s.Sum()
		for _, b := range s.Bounds {
			n = b.apply(n)
		}
		if n != s.Value {
			return s.Name + " does not add up"
		}
		words := strings.FieldsFunc(lines[i], func(c rune) bool { return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z') })
		has := func(name string) bool {
			return name == "" || strings.Contains(" "+strings.Join(words, " ")+" ", " "+name+" ")
		}
		if words[0] != s.Name {
			return s.Name + " stands where the formula has " + words[0]
		}
		for _, x := range s.Terms {
			if !has(x.Name) {
				return s.Name + " has the term " + x.Name
			}
		}
		for _, b := range s.Bounds {
			if !has(b.Name) {
				return s.Name + " has the bound " + b.Name
			}
		}
		if s.Name == "dispatch" {
			short = d.Figures.Wanted() - s.Value
		}
	}
	limits, sum := d.Limits(), d.Figures
	switch {
	case sum.OtherOverlays < 0 || sum.OtherOverlays > sum.Pending:
		return "more jobs are left elsewhere than are pending"
	case sum.NonMatching < 0 || sum.NonMatching > sum.Idle-sum.Replacing+sum.InFlight-sum.Overdue:
		return "more agents are unusable than are there"
	case (short > 0) != (len(limits) > 0):
		return "limits where nothing is left out, or none where something is"
	case short > 0 && limits[0].Agents != short:
		return "the first limit does not say how many are left out"
	case !reflect.DeepEqual(steps, d.Steps()):
		return "other steps the second time"
	}
	return ""
}
