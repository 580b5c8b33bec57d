package manifest

import (
	"fmt"
	"strings"
	"unicode"
)

// Finding is one thing that is wrong in a fleet repository. As an error it
// reads on one line:
//
//	overlays/default/scaling.yaml:7: spec.max: is missing; say how many agents ...
type Finding struct {
	// File is the file or directory at fault, from the top of the repository.
	File string
	// Line counts from 1; 0 where it is not known, as in a template, whose
	// fields come out of several files.
	Line int
	// Field is the field's path, as in "spec.max"; empty where the whole file
	// is at fault.
	Field string
	// Problem says what is wrong, Remedy what to write instead. Remedy may be
	// empty where the problem says it all.
	Problem, Remedy string
}

// Error puts the finding on one line.
func (f Finding) Error() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d", f.Line)
	}
	if f.Field != "" {
		b.WriteString(": " + f.Field)
	}
	b.WriteString(": " + f.Problem)
	if f.Remedy != "" {
		b.WriteString("; " + f.Remedy)
	}
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' ' // a name in the tree or a key in a file may hold any
		}
		return c
	}, b.String())
}

// first is the error of an overlay with these findings: the first of them, and
// how many more there are. No finding is no error.
func first(findings []Finding) error {
	switch len(findings) {
	case 0:
		return nil
	case 1:
		return findings[0]
	}
	return fmt.Errorf("%w (and %d more)", findings[0], len(findings)-1)
}

// oneLine folds another library's error, which may run over many lines, and
// takes the slash off the absolute paths that kustomize was given. It is cut where
// it is long: kustomize lists every object that it knows.
func oneLine(err error) string {
	const longest = 600
	text := strings.ReplaceAll(strings.Join(strings.Fields(err.Error()), " "), "'/", "'")
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
}

// quote shows a value that a person wrote, cut where it is long.
func quote(s string) string {
	const longest = 60
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "…"
	}
	return fmt.Sprintf("%q", s)
}
