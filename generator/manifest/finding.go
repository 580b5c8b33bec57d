package manifest

import (
	"fmt"
	"slices"
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
	// Line counts from 1; 0 where it is not known, or the whole file is at fault.
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
	where := f.File
	if f.Line > 0 {
		where += fmt.Sprintf(":%d", f.Line)
	}
	return printing(where) + ": " + f.Text()
}

// Text is the finding on one line, without its place.
func (f Finding) Text() string {
	text := f.Problem
	if f.Field != "" {
		text = f.Field + ": " + text
	}
	if f.Remedy != "" {
		text += "; " + f.Remedy
	}
	return printing(text)
}

// printing puts a space for every control character: a name in the tree or a key
// in a file may hold any.
func printing(text string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, text)
}

// findingsError is several findings, a line each.
type findingsError []Finding

func (e findingsError) Error() string {
	const most = 20
	var lines []string
	for _, f := range e[:min(most, len(e))] {
		lines = append(lines, f.Error())
	}
	if more := len(e) - most; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n")
}

func (e findingsError) Unwrap() []error {
	var all []error
	for _, f := range e {
		all = append(all, f)
	}
	return all
}

// joined is the error of an overlay with these findings, a line each. No finding
// is no error, and one is itself.
func joined(findings []Finding) error {
	switch len(findings) {
	case 0:
		return nil
	case 1:
		return findings[0]
	}
	return findingsError(findings)
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

// mostFindings bounds what is said of one overlay, and fewFindings where mostSaid
// was said of others before it: thousands of overlays may be broken.
const (
	mostFindings = 50
	mostSaid     = 5000
	fewFindings  = 5
)

func (o *Overlay) reject(findings ...Finding) {
	before := len(o.findings)
	if before > 0 {
		findings = append(o.findings, findings...)
	}
	o.findings = atMost(o, slices.Clip(findings)) // a policy's are remembered, and shared
	o.loader.said += len(o.findings) - before
}

// most is how many findings the overlay may have.
func (l *Loader) most() int {
	if l.said > mostSaid {
		return fewFindings
	}
	return mostFindings
}

// atMost cuts a list of findings.
func atMost(o *Overlay, findings []Finding) []Finding {
	most := o.loader.most()
	if len(findings) <= most {
		return findings
	}
	findings = slices.Clone(findings[:most])
	findings[most-1] = Finding{File: o.Path, Problem: fmt.Sprintf("has more than the %d problems above", most-1)}
	return findings
}
