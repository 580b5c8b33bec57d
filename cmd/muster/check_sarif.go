package main

import (
	"encoding/json"
	"io"
	"net/url"
	"path"
	"strings"

	"muster/generator/finding"
)

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
