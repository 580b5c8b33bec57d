package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	// incidentsFile contains the results of the last make incidents.
	incidentsFile = "testdata/incidents/results.json"
	// incidentAlertsFile contains the alerts, which testdata/prometheus writes.
	incidentAlertsFile = "testdata/incidents/alerts.json"
	incidentsPage      = "docs/reference/alerts.md"
	incidentsBegin     = "<!-- begin: make incidents -->"
	incidentsEnd       = "<!-- end: make incidents -->"
)

// incidentResults are the recorded outcomes of incidents, and those of this run.
type incidentResults struct {
	recorded, played []outcome
}

func recordedIncidents(t *testing.T) *incidentResults {
	t.Helper()
	r := &incidentResults{}
	check(t, json.Unmarshal([]byte(readText(t, incidentsFile)), &r.recorded))
	return r
}

// check compares an outcome with the recorded one.
func (r *incidentResults) check(t *testing.T, o outcome) {
	t.Helper()
	if o.Condition == (conditionKey{}) {
		return
	}
	r.played = append(r.played, o)
	if *playIncidents && *updateScripts {
		return
	}
	i := slices.IndexFunc(r.recorded, func(x outcome) bool { return x.Incident == o.Incident })
	if i < 0 || r.recorded[i].row() != o.row() || r.recorded[i].Message != o.Message || r.recorded[i].Remedy != o.Remedy {
		t.Errorf("%s is behind: run make incidents; got\n%s%s\n%s", incidentsFile, o.row(), o.Message, o.Remedy)
	}
}

func (r *incidentResults) write(t *testing.T) {
	t.Helper()
	text, err := json.MarshalIndent(r.played, "", "  ")
	check(t, err)
	check(t, os.WriteFile(filepath.Join(top, incidentsFile), append(text, '\n'), 0o644))
	r.recorded = r.played
}

// incidentAlert is the alert of an incident, and the minutes until it fires. No alert fires if they
// are empty.
type incidentAlert struct{ Incident, Alert, After string }

// cell returns the cell of an incident in the table.
func (a incidentAlert) cell() string {
	if a.Alert == "" {
		return "none"
	}
	return fmt.Sprintf("`%s` %s", strings.TrimPrefix(a.Alert, "Muster"), a.After)
}

// row returns the row of an incident, with further cells.
func (o outcome) row(further ...string) string {
	cells := []string{o.Incident, fmt.Sprintf("`%s` `%s`", o.Condition.Type, o.Condition.Reason)}
	for _, name := range surfaces {
		cells = append(cells, o.First[name])
	}
	return "| " + strings.Join(append(cells, further...), " | ") + " |\n"
}

// table returns the generated part of the page: when each surface and which alert reports each
// incident, and what muster prints as the remedy for each condition.
func (r *incidentResults) table(alerts []incidentAlert) string {
	var b strings.Builder
	b.WriteString("| incident | condition and reason | page | JSON | `/readyz` | metrics | log | `plan` | `status` | `explain` | alert |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|\n")
	for i, o := range r.recorded {
		b.WriteString(o.row(alerts[i].cell()))
	}
	b.WriteString("\nWhat to check first, as the page, the log and the commands print it:\n\n")
	var listed []string
	for _, o := range r.recorded {
		item := fmt.Sprintf("`%s` `%s`: %s", o.Condition.Type, o.Condition.Reason, o.Remedy)
		if !slices.Contains(listed, item) {
			listed = append(listed, item)
			b.WriteString(wrapped("- "+item, "  "))
		}
	}
	return b.String()
}

// wrapped breaks text into lines of at most 120 characters.
func wrapped(text, indent string) string {
	const width = 120
	var b strings.Builder
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) > width:
			b.WriteString(line + "\n")
			line = indent + word
		default:
			line += " " + word
		}
	}
	return b.String() + line + "\n"
}

// TestIncidentsTable asserts that the table of the page is that of the recorded results, and that
// these are of all incidents.
func TestIncidentsTable(t *testing.T) {
	r := recordedIncidents(t)
	var alerts []incidentAlert
	check(t, json.Unmarshal([]byte(readText(t, incidentAlertsFile)), &alerts))
	var want, got, alerted []string
	for _, x := range incidents {
		if !x.fine {
			want = append(want, x.name)
		}
	}
	for _, o := range r.recorded {
		got = append(got, o.Incident)
	}
	for _, a := range alerts {
		alerted = append(alerted, a.Incident)
	}
	if !slices.Equal(got, want) || !slices.Equal(alerted, want) {
		t.Fatalf("%s or %s is behind: run make incidents; they have %q and %q, want %q", incidentsFile, incidentAlertsFile, got, alerted, want)
	}
	checkBlock(t, incidentsPage, incidentsBegin, incidentsEnd, r.table(alerts))
}
