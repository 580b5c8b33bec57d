package main

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/url"
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
	// findings are what is wrong with the files, failures all else: credentials,
	// the network, what Buildkite says of the queues.
	findings []finding.Finding
	failures []error
	build    build
}

// checkPrinters are the values of check's --output.
func checkPrinters() map[string]func(io.Writer, checked) error {
	return map[string]func(io.Writer, checked) error{
		"text": printCheckText, "json": printCheckJSON, "sarif": printSARIF, "github": printCheckGitHub,
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

// The parts of SARIF 2.1.0 that check writes
// (docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html).
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool        sarifTool         `json:"tool"`
		Invocations []sarifInvocation `json:"invocations"`
		Results     []sarifResult     `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID               string    `json:"id"`
		ShortDescription sarifText `json:"shortDescription"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifInvocation struct {
		ExecutionSuccessful bool                `json:"executionSuccessful"`
		Notifications       []sarifNotification `json:"toolExecutionNotifications,omitempty"`
	}
	sarifNotification struct {
		Level   string    `json:"level"`
		Message sarifText `json:"message"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifLocation struct {
		Physical sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   sarifRegion   `json:"region"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine int `json:"startLine"`
	}
)

// sarifRules are what findings are sorted into, by the file that they are in.
func sarifRules() []sarifRule {
	return []sarifRule{
		{"policy", sarifText{"A scaling.yaml that muster cannot follow"}},
		{"template", sarifText{"An agent Job whose agents would die, run twice or never come"}},
		{"dispatch", sarifText{"A file below dispatches/ that is not as muster wrote it"}},
		{"overlay", sarifText{"An overlay that the syncer could not apply"}},
	}
}

func sarifRuleOf(f finding.Finding) string {
	switch {
	case path.Base(f.File) == "scaling.yaml":
		return "policy"
	case strings.Contains("/"+f.File+"/", "/dispatches/"):
		return "dispatch"
	case strings.Contains("/"+f.File+"/", "/template/"), strings.HasPrefix(f.File, "base/"):
		return "template"
	}
	return "overlay"
}

// printSARIF prints the findings as code scanning reads them. What is not about a
// file is a notification: the run itself has failed.
func printSARIF(out io.Writer, c checked) error {
	run := sarifRun{
		Tool:        sarifTool{sarifDriver{Name: "muster", Version: c.build.String(), Rules: sarifRules()}},
		Invocations: []sarifInvocation{{ExecutionSuccessful: len(c.failures) == 0}},
		Results:     []sarifResult{},
	}
	for _, f := range c.failures {
		run.Invocations[0].Notifications = append(run.Invocations[0].Notifications, sarifNotification{"error", sarifText{f.Error()}})
	}
	for _, f := range c.findings {
		uri := url.URL{Path: c.place(f.File)}
		run.Results = append(run.Results, sarifResult{
			RuleID: sarifRuleOf(f), Level: "error", Message: sarifText{f.Text()},
			// GitHub wants a line with each result: the first where none is known.
			Locations: []sarifLocation{{sarifPhysical{sarifArtifact{uri.String()}, sarifRegion{max(1, f.Line)}}}},
		})
	}
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(sarifLog{
		Schema: "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run},
	})
}
