// Package finding describes what is wrong in a file of the fleet repository: the place, the
// problem and the remedy. It also reads YAML so that the place is known.
package finding

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode"
)

// Finding is one problem in a fleet repository. Its error has one line:
//
//	overlays/default/scaling.yaml:7: spec.max: is missing; write the maximum number of agents
type Finding struct {
	// File is the file or directory at fault, from the top of the repository.
	File string `json:"file"`
	// Line counts from 1; it is 0 if it is unknown, as for fields of what kustomize built, or if the whole
	// file is at fault.
	Line int `json:"line,omitempty"`
	// Field is the field's path, as in "spec.max"; empty if the whole file is at fault.
	Field string `json:"field,omitempty"`
	// Problem describes the problem, and Remedy what to write instead. Remedy may be empty.
	Problem string `json:"problem"`
	Remedy  string `json:"remedy,omitempty"`
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

// printing replaces each control character with a space: a name in the tree or a key in a file may
// contain any.
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

// Join returns an error with one line for each finding: nil for no findings, and the finding
// itself for one.
func Join(findings []Finding) error {
	switch len(findings) {
	case 0:
		return nil
	case 1:
		return findings[0]
	}
	return findingsError(findings)
}

// Unreadable returns the finding that a file cannot be read. Its text does not repeat the name.
func Unreadable(file string, err error) Finding {
	text := OneLine(err)
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		text = strings.Replace(text, OneLine(failed), OneLine(failed.Err), 1)
	}
	return Finding{File: file, Problem: "cannot be read: " + text}
}

// OneLine returns the text of an error of another library on one line, without the leading slash
// of the absolute paths that kustomize was given. It truncates long texts: kustomize lists every
// object that it has read.
func OneLine(err error) string {
	const longest = 600
	text := strings.ReplaceAll(strings.Join(strings.Fields(err.Error()), " "), "'/", "'")
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
}

// Quote returns a value that a person wrote in quotes, truncated if it is long.
func Quote(s string) string {
	const longest = 60
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "…"
	}
	return fmt.Sprintf("%q", s)
}

// Or joins names, as in "min, max or buffer".
func Or(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
