package main

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"muster/generator/finding"
)

// checked is what check found.
type checked struct {
	// tree is what was looked at, and dir where it lies below the directory that
	// check was called in; "." where it is not there, as with --repo.
	tree fs.FS
	dir  string
	// findings are problems in the files. failures are all other problems: credentials, the
	// network, queues in Buildkite.
	findings []finding.Finding
	failures []error
}

// checkPrinters are the values of check's --output.
func checkPrinters() map[string]func(io.Writer, checked) error {
	return map[string]func(io.Writer, checked) error{
		"text": printCheckText, "json": printCheckJSON, "github": printCheckGitHub,
	}
}

// printCheckText prints a line for each finding.
func printCheckText(out io.Writer, c checked) error {
	for _, f := range c.findings {
		fmt.Fprintln(out, f.Error())
	}
	for _, f := range c.failures {
		fmt.Fprintln(out, f.Error())
	}
	if len(c.findings)+len(c.failures) == 0 {
		fmt.Fprintln(out, "OK")
	}
	return nil
}

// checkDocument is what -o json prints.
type checkDocument struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Findings   []checkFinding `json:"findings"`
	// Failures are what keeps muster from working besides its files.
	Failures []string `json:"failures"`
}

type checkFinding struct {
	// File is relative to the top of the fleet repository. Line counts from 1; it
	// and Field are missing where they are not known.
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Field   string `json:"field,omitempty"`
	Problem string `json:"problem"`
	Remedy  string `json:"remedy,omitempty"`
}

func printCheckJSON(out io.Writer, c checked) error {
	document := checkDocument{APIVersion: "muster.dev/v1alpha1", Kind: "Check", Findings: []checkFinding{}, Failures: []string{}}
	for _, f := range c.findings {
		document.Findings = append(document.Findings, checkFinding(f))
	}
	for _, f := range c.failures {
		document.Failures = append(document.Failures, f.Error())
	}
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(document)
}

// printCheckGitHub prints a workflow command for each finding, from which GitHub
// Actions makes an annotation of the file
// (docs.github.com/actions/reference/workflow-commands-for-github-actions).
func printCheckGitHub(out io.Writer, c checked) error {
	for _, f := range c.findings {
		where := "file=" + githubProperty(c.place(f.File))
		if f.Line > 0 {
			where += ",line=" + strconv.Itoa(f.Line)
		}
		fmt.Fprintf(out, "::error %s,title=%s::%s\n", where, githubProperty("muster check"), githubData(f.Text()))
	}
	for _, f := range c.failures {
		fmt.Fprintf(out, "::error title=%s::%s\n", githubProperty("muster check"), githubData(f.Error()))
	}
	if len(c.findings)+len(c.failures) == 0 {
		fmt.Fprintln(out, "OK") // people read this output as well
	}
	return nil
}

// githubData escapes the message of a workflow command, as @actions/core does it.
// A name in the tree may hold other control characters, which no terminal should get.
func githubData(text string) string {
	text = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(text)
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, text)
}

// githubProperty escapes a property of a workflow command.
func githubProperty(text string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(githubData(text))
}

// place is a finding's file as an annotation wants it: a file, not a directory,
// relative to the directory that check was called in.
func (c checked) place(file string) string {
	if info, err := fs.Stat(c.tree, file); err == nil && info.IsDir() {
		for _, name := range []string{"kustomization.yaml", "scaling.yaml"} {
			if _, err := fs.Stat(c.tree, path.Join(file, name)); err == nil {
				file = path.Join(file, name)
				break
			}
		}
	}
	return path.Join(c.dir, file)
}

// below is where a directory lies below the current one, as a slash-separated
// path; "." where it does not.
func below(dir string) string {
	if !filepath.IsLocal(dir) {
		return "."
	}
	return filepath.ToSlash(filepath.Clean(dir))
}
