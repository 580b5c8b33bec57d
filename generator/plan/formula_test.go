package plan

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestFormulaIsWrittenOnce: the comment of Decide and docs/design.md say what
// [Formula] says, word for word.
func TestFormulaIsWrittenOnce(t *testing.T) {
	for file, indent := range map[string]string{"decide.go": "//\t", filepath.Join("..", "..", "docs", "design.md"): ""} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want := indent + strings.ReplaceAll(strings.TrimSpace(Formula), "\n", "\n"+indent)
		if !strings.Contains(string(text), "\n"+want+"\n") {
			t.Errorf("%s does not have the formula:\n%s", file, want)
		}
	}
}

// TestFormula evaluates the formula's text on the sums of every case: what
// people read is what is decided.
func TestFormula(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, file := range files {
		w, _ := readCase(t, file)
		overlays, snapshot, registrations := w.build(t)
		for _, o := range Observe(overlays, snapshot, registrations) {
			for _, d := range Decide("c0ffee", overlays, o) {
				for _, wrong := range againstFormula(t, d) {
					t.Errorf("%s: %s: %s", file, d.Overlay, wrong)
				}
				checked++
			}
		}
	}
	if checked < 30 {
		t.Errorf("only %d decisions were checked", checked)
	}
}

// TestFormulaAtRandom does the same for random fleets.
func TestFormulaAtRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		for _, x := range d.decide() {
			for _, wrong := range againstFormula(t, x) {
				t.Fatalf("%s: %s", x.Overlay, wrong)
			}
		}
	})
}

// fataler is a test of either kind.
type fataler interface {
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// againstFormula compares a decision's sum with what the formula makes of its
// terms.
func againstFormula(t fataler, d Decision) (wrong []string) {
	text, err := json.Marshal(d.Sum)
	if err != nil {
		t.Fatal(err)
	}
	terms := map[string]int{}
	if err := json.Unmarshal(text, &terms); err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(strings.TrimSpace(Formula), "\n") {
		name, rest, _ := strings.Cut(line, " = ")
		name = strings.TrimSpace(name)
		end := strings.LastIndexByte(rest, ')') + 1
		rest, exception := rest[:end], strings.TrimPrefix(rest[end:], ", ")
		got := evaluate(t, rest, terms)
		switch {
		case exception == "at most leftThisHour" && d.Sum.MaxPerHour > 0:
			got = min(got, d.Sum.LeftThisHour)
		case exception == "0 while suspended, 1 for a probe" && d.Suspended.Active():
			got = 0
		case exception == "0 while suspended, 1 for a probe" && d.Probe:
			got = 1
		}
		if want := terms[name]; got != want {
			wrong = append(wrong, fmt.Sprintf("%s is %d, the formula %q makes it %d of %s", name, want, line, got, text))
		}
	}
	return wrong
}

// evaluate works out an expression of +, -, max, min and the terms by name.
func evaluate(t fataler, expression string, terms map[string]int) int {
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
			return terms[e.Name] // one that is left out is zero
		case *ast.BinaryExpr:
			if e.Op == token.ADD {
				return value(e.X) + value(e.Y)
			}
			return value(e.X) - value(e.Y)
		case *ast.CallExpr:
			a, b := value(e.Args[0]), value(e.Args[1])
			if e.Fun.(*ast.Ident).Name == "max" {
				return max(a, b)
			}
			return min(a, b)
		}
		t.Fatalf("%s: what is %T?", expression, e)
		return 0
	}
	return value(e)
}
