package main

import (
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestMutants lists what is tried of each kind of code.
func TestMutants(t *testing.T) {
	for body, want := range map[string][]string{
		"if a < b { f() }":               {"if (a < b && false) { f() }", "if (a < b || true) { f() }", "if a <= b { f() }", "if a < b { }"},
		"if p && !q { x = 1 }":           {"if (p && !q && false) { x = 1 }", "if (p || true) && !q { x = 1 }", "if p && (!q || true) { x = 1 }", "if p && !q { }"},
		"if p || a == b { return }":      {"if (p || a == b || true) { return }", "if (p && false) || a == b { return }", "if p || (a == b && false) { return }"},
		"ok := a == b":                   {"ok := a != b"},
		"ok := !p":                       {"ok := p"},
		"ok := true":                     {"ok := false"},
		"n := a + b*2":                   {"n := a - b*2", "n := a + b/2"},
		`s := "x" + t`:                   nil,
		"for i := 0; i < n; i++ { g() }": {"for i := 0; (i < n && false); i++ { g() }", "for i := 0; i <= n; i++ { g() }", "for i := 0; i < n; i++ { }"},
		"switch { case a >= b: n++ }":    {"switch { case (a >= b && false): n++ }", "switch { case (a >= b || true): n++ }", "switch { case a > b: n++ }", "switch { case a >= b: n-- }"},
		"switch x { case 1: break }":     {"switch x { case 1: }"},
		"defer f()":                      {""},
		`panic("no")`:                    nil,
	} {
		source := []byte("package p\n\nfunc (r *T) F() {\n" + body + "\n}\n")
		found, err := mutants("x.go", source)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		numbered := map[int]mutant{}
		for i, m := range found {
			if m.function != "T.F" || m.line != 4 || m.old() != body {
				t.Errorf("%s: found in %s, line %d, as %s", body, m.function, m.line, m.old())
			}
			got = append(got, m.changed())
			if m.before != "" {
				numbered[i+1] = m
			}
		}
		slices.Sort(got)
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("%s\ngot\n%s\nwant\n%s", body, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		all := schema(source, numbered)
		if _, err := parser.ParseFile(token.NewFileSet(), "x.go", all, 0); err != nil {
			t.Errorf("%v in\n%s", err, all)
		}
		if n := strings.Count(string(all), "mutantIsOn("); n != len(numbered) {
			t.Errorf("%d switches for the mutants %v:\n%s", n, slices.Sorted(maps.Keys(numbered)), all)
		}
	}
}
