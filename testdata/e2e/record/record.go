// Package record keeps what the suite has seen in docs/reference/syncers.md: promise by
// promise, with the versions, the date, and a sum of what was tried, so that a change
// of it is noticed.
package record

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Page is the document, from the top of the repository.
const Page = "docs/reference/syncers.md"

// TracePage is the document with the section [Trace].
const TracePage = "docs/explanation/performance.md"

// Tried are the directories whose files the suite tries: the agent Job, the overlay
// that init writes, muster's own deployment, and what syncers are told.
var Tried = []string{"base", "overlays/default", "deploy"}

// untried are directories of those with what the suite does not apply: a program, and what is for
// Prometheus and Grafana, which testdata/prometheus tests.
var untried = []string{"deploy/release", "deploy/components/alerts", "deploy/components/dashboard"}

// The sections of the page that are written: what each whole run tries, the same with
// the versions of the minor before, and what takes longer and is run by itself.
const (
	Whole    = "tried"
	Previous = "previous"
	Long     = "long"
	// Trace is where the seconds from a job to its agent go. A whole run writes it, too.
	Trace = "trace"
)

// markers are the lines around a section.
func markers(section string) (begin, end []byte) {
	return []byte("<!-- begin: " + section + " -->\n"), []byte("<!-- end: " + section + " -->\n")
}

// comments are lines, but not the first line of a script. tags are those of muster's image in deploy/: the suite runs an
// image that it builds.
var (
	comments = regexp.MustCompile(`(?m)^[ \t]*#([^!\n].*)?\n`)
	tags     = regexp.MustCompile(`(?m)^[ \t]*newTag: .*\n`)
)

// Sum is made from the names and contents of what is tried. Go's files, comments and the tag of muster's image are left
// out.
func Sum(root fs.FS) (string, error) {
	sum := sha256.New()
	for _, dir := range Tried {
		err := fs.WalkDir(root, dir, func(name string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() && slices.Contains(untried, name) {
				return fs.SkipDir
			}
			if err != nil || entry.IsDir() || path.Ext(name) == ".go" {
				return err
			}
			content, err := fs.ReadFile(root, name)
			content = comments.ReplaceAll(content, nil)
			if dir == "deploy" {
				content = tags.ReplaceAll(content, nil)
			}
			fmt.Fprintf(sum, "%s %d\n", name, len(content))
			sum.Write(content)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// Run is one run of the suite.
type Run struct {
	// Date is the day, as in 2026-11-22. Sum is of what was tried.
	Date, Sum string
	// Versions are lines: of the cluster, of each syncer, of the agent, of how pods ran.
	Versions []string
	// Syncers are those of the run.
	Syncers []string
	// Brief leaves the sentences of promises out, which the section Whole has.
	Brief bool
	// Promises are what held, in the order of the page.
	Promises []Promise
	// Figures are what was measured.
	Figures []Figure
}

// Promise is a sentence, its test, and which syncers it held with.
type Promise struct {
	Text, Test string
	Held       map[string]bool
}

// Figure is a row: what was measured, by syncer.
type Figure struct {
	Text   string
	Values map[string]string
}

// Markdown is the part of the page between the markers.
func (r Run) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Recorded on %s, for base, overlay, deployment and settings `%s`, with:\n\n", r.Date, r.Sum)
	for _, v := range r.Versions {
		fmt.Fprintf(&b, "- %s\n", v)
	}
	var results []string // in the order of their first promise
	rows := map[string][]string{}
	for _, p := range r.Promises {
		result := r.result(p)
		if rows[result] == nil {
			results = append(results, result)
		}
		row := "`" + p.Test + "`"
		if !r.Brief {
			row = "- " + p.Text + " (" + row + ")"
		}
		rows[result] = append(rows[result], row)
	}
	for _, result := range results {
		separator := "\n"
		if r.Brief {
			separator = ",\n"
		}
		fmt.Fprintf(&b, "\nResult: %s.\n\n%s\n", result, strings.Join(rows[result], separator))
	}
	if len(r.Figures) > 0 {
		b.WriteString("\n| measured |")
		for _, s := range r.Syncers {
			fmt.Fprintf(&b, " %s |", titles[s])
		}
		b.WriteString("\n|" + strings.Repeat("---|", 1+len(r.Syncers)) + "\n")
	}
	for _, f := range r.Figures {
		fmt.Fprintf(&b, "| %s |", f.Text)
		for _, s := range r.Syncers {
			fmt.Fprintf(&b, " %s |", f.Values[s])
		}
		b.WriteString("\n")
	}
	return b.String()
}

var titles = map[string]string{"flux": "Flux", "argocd": "Argo CD"}

// result returns the result of a promise with each syncer.
func (r Run) result(p Promise) string {
	with := map[string][]string{}
	for _, s := range r.Syncers {
		state := "not run"
		if held, tried := p.Held[s]; tried {
			state = map[bool]string{true: "passed", false: "**failed**"}[held]
		}
		with[state] = append(with[state], titles[s])
	}
	var all []string
	for _, state := range []string{"passed", "**failed**", "not run"} {
		if with[state] != nil {
			all = append(all, state+" with "+strings.Join(with[state], " and "))
		}
	}
	return strings.Join(all, ", ")
}

// errNoMarkers says that the page has no place for a section, or nothing in it.
var errNoMarkers = errors.New("the page lacks the lines around the section, or what is in it")

// Replace puts a text into a section of a page.
func Replace(page []byte, section, text string) ([]byte, error) {
	begin, end := markers(section)
	before, rest, found := bytes.Cut(page, begin)
	_, after, ended := bytes.Cut(rest, end)
	if !found || !ended {
		return nil, errNoMarkers
	}
	return slices.Concat(before, begin, []byte(text), end, after), nil
}

// Block returns the YAML between two markers of a page: what it tells its reader to apply.
func Block(page []byte, name string) ([]byte, error) {
	begin, end := markers(name)
	_, rest, found := bytes.Cut(page, slices.Concat(begin, []byte("```yaml\n")))
	text, _, ended := bytes.Cut(rest, slices.Concat([]byte("```\n"), end))
	if !found || !ended {
		return nil, fmt.Errorf("the page has no block %q", name)
	}
	return text, nil
}

// Of returns the sum that a section's table is of.
func Of(page []byte, section string) (string, error) {
	begin, _ := markers(section)
	_, rest, found := bytes.Cut(page, begin)
	_, rest, of := bytes.Cut(rest, []byte("settings `"))
	sum, _, ended := bytes.Cut(rest, []byte("`"))
	if !found || !of || !ended {
		return "", errNoMarkers
	}
	return string(sum), nil
}
