package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"muster/generator/condition"
)

// Cells of a surface that does not report the condition itself.
const (
	// ageOnly: git contains no record, and the surface says how old its figures are.
	ageOnly = "age"
	// notRecorded: it reports AgentsArriving=Unknown (NotRecorded).
	notRecorded = "NotRecorded"
	// cannotKnow: what the surface reads does not contain the condition.
	cannotKnow = "-"
)

// agesShown are what status and explain print about the age of what git records.
var agesShown = regexp.MustCompile(`as of the last poll in git|Git contains no (later )?poll|git contains no poll`)

// notRecordedShown is how status and explain print the reason NotRecorded.
var notRecordedShown = regexp.MustCompile(`\(NotRecorded\): `)

// unobservable are causes that muster cannot observe. Remedies name them, as checks.
var unobservable = regexp.MustCompile(`(?i)\b(images?|secrets?|quotas?|nodes?|syncer|argo cd|flux|suspended syncer)\b`)

// outcome is what the surfaces reported of an incident.
type outcome struct {
	Incident  string       `json:"incident"`
	Condition conditionKey `json:"condition"`
	// Message is without figures, which differ from run to run.
	Message string `json:"message"`
	Remedy  string `json:"remedy"`
	// First is the first minute at which each surface reports the condition, or what it reports
	// instead.
	First map[surface]string `json:"first"`
}

// judge asserts what surfaces report of an incident.
func judge(t *testing.T, x incident, samples []minuteSample) outcome {
	t.Helper()
	r := outcome{Incident: x.name, Condition: x.want, First: map[surface]string{}}
	everyTick(t, x, samples)
	samples = slices.DeleteFunc(samples, func(s minuteSample) bool { return s.minute == 0 })
	if last := int(x.watched().Minutes()); len(samples) != last {
		t.Fatalf("%d samples, want %d", len(samples), last)
	}
	first := map[surface]int{}
	for _, s := range samples {
		consistent(t, x, s)
		if k := ofMuster(condition.RepositoryAvailable, condition.NoAnswer); x.want.Type != k.Type {
			if message, ok := s.readings[surfaceJSON].found[k]; ok {
				t.Errorf("minute %d: git answers, but status.json reports %s: %s", s.minute, k, message)
			}
		}
		if x.fine {
			nothingReported(t, s)
			continue
		}
		for _, name := range surfaces {
			if first[name] == 0 && s.readings[name].reports(x.want, s) {
				first[name] = s.minute
			}
		}
		if message, ok := s.readings[surfaceJSON].found[x.want]; ok && r.Message == "" {
			r.Message, r.Remedy = words(message), s.readings[surfaceJSON].remedies[x.want]
		}
	}
	if x.fine {
		return r
	}
	for _, name := range surfaces {
		r.First[name] = x.cell(t, name, first[name], samples)
	}
	if text := atFive(samples)[surfaceExplain].text; !strings.Contains(text, x.explains) {
		t.Errorf("after five minutes explain does not print %q:\n%s", x.explains, text)
	}
	return r
}

// cell returns when a surface first reported the condition, or what it reported instead. It fails
// if that was late.
func (x incident) cell(t *testing.T, name surface, first int, samples []minuteSample) string {
	t.Helper()
	why, blind := x.blind[name]
	r := atFive(samples)[name]
	switch {
	case blind && first > 0:
		t.Errorf("%s reports %s, but was expected not to know it: %s", name, x.want, why)
	case blind:
		return cannotKnow
	case first > 0 && first <= int(reportedWithin.Minutes()):
		return strconv.Itoa(first)
	case name.fromGit() && notRecordedShown.MatchString(r.text) && x.want.Type == condition.AgentsArriving:
		return notRecorded
	case name.fromGit() && agesShown.MatchString(r.text):
		return ageOnly
	default:
		t.Errorf("%s first reports %s after %d minutes (0: never), want at most %v; after five minutes:\n%s", name, x.want, first, reportedWithin, r.text)
	}
	return strconv.Itoa(first)
}

// atFive returns what the surfaces report when reportedWithin is over.
func atFive(samples []minuteSample) map[surface]reading {
	return samples[int(reportedWithin.Minutes())-1].readings
}

// reports reports whether a surface reports a condition: in its form, or as the error of a command.
func (r reading) reports(want conditionKey, s minuteSample) bool {
	if _, ok := r.found[want]; ok {
		return true
	}
	message := ""
	for _, other := range []surface{surfaceJSON, surfaceLog} {
		if m, ok := s.readings[other].found[want]; ok && message == "" {
			message = m
		}
	}
	return message != "" && r.failed != "" && sameError(r.failed, message)
}

// doing is what commands and ticks do while they read the repository.
var doing = regexp.MustCompile(`^(muster: )?(fleet repository: )?(reading (the history of )?[^ ]+: )?`)

// sameError reports whether a command failed with the error that a condition contains.
func sameError(failed, message string) bool {
	failed = words(doing.ReplaceAllString(strings.TrimSpace(failed), ""))
	return failed != "" && strings.Contains(words(message), failed)
}

// waitsShown matches plan's sentence on the agents that pending jobs wait for.
var waitsShown = regexp.MustCompile(`pending jobs? waits? for \d+ agents?, ordered \S+ ago`)

// consistent asserts that the surfaces report the same conditions in the same words, and no cause
// that muster cannot observe; and that plan names the agents that an overlay waits for.
func consistent(t *testing.T, x incident, s minuteSample) {
	t.Helper()
	for _, name := range surfaces {
		r := s.readings[name]
		for _, k := range r.keys() {
			if _, blind := x.blind[name]; x.alone && !blind && k != x.want {
				t.Errorf("minute %d: %s reports %s beside its cause, %s", s.minute, name, k, x.want)
			}
		}
		if x.want.Type == condition.AgentsArriving {
			if cause := unobservable.FindString(r.text); cause != "" {
				t.Errorf("minute %d: %s names a cause that muster cannot observe, %q:\n%s", s.minute, name, cause, r.text)
			}
		}
		if name == surfaceStatus && s.minute > 1 && r.ready && !s.readings[surfaceJSON].ready && !agesShown.MatchString(r.text) && !notRecordedShown.MatchString(r.text) {
			t.Errorf("minute %d: the state of the overlay is Ready in status, but not in status.json, and nothing says how old that is:\n%s", s.minute, r.text)
		}
		_, overdue := r.found[x.want]
		overdue = overdue && x.want.Reason == condition.Overdue
		if name == surfacePlan && overdue && strings.Contains(r.text, "commits nothing.") && !waitsShown.MatchString(r.text) {
			t.Errorf("minute %d: plan does not print for which agents it waits:\n%s", s.minute, r.text)
		}
		if name == surfaceReadyz && strings.HasPrefix(r.text, "ok\n") != s.readings[surfaceJSON].musterReady {
			t.Errorf("minute %d: readyz and Ready in status.json differ:\n%s\n%s", s.minute, r.text, s.readings[surfaceJSON].text)
		}
		if name == surfaceJSON || name.fromGit() || r.failed != "" {
			continue
		}
		for _, difference := range differences(x, name, r, s.readings[surfaceJSON]) {
			if s.again == nil || slices.Contains(differences(x, name, s.again[name], s.again[surfaceJSON]), difference) {
				t.Errorf("minute %d: %s and status.json differ for longer than a tick: %s", s.minute, name, difference)
			}
		}
	}
}

// differences lists how the conditions of a surface differ from those of status.json.
func differences(x incident, name surface, r, from reading) []string {
	var all []string
	_, blind := x.blind[name]
	for _, k := range from.keys() {
		message, ok := r.found[k]
		switch {
		case !ok && !(blind && k == x.want):
			all = append(all, fmt.Sprintf("only status.json has %s", k))
		case ok && message != "" && words(message) != words(from.found[k]) && !sameError(message, from.found[k]):
			all = append(all, fmt.Sprintf("%s: %q, but status.json %q", k, words(message), words(from.found[k])))
		}
	}
	for _, k := range r.keys() {
		// A surface that cannot know the cause reports the symptom.
		if _, ok := from.found[k]; !ok && !(blind && x.alone) {
			all = append(all, fmt.Sprintf("status.json does not have %s", k))
		}
	}
	if r.ready && !from.ready && !blind {
		all = append(all, "the state of the overlay is Ready, but not in status.json")
	}
	return all
}

// everyTick asserts that when one of the surfaces of muster run reports the condition, all of them do
// after the next tick, unless it is over.
func everyTick(t *testing.T, x incident, samples []minuteSample) {
	t.Helper()
	var ticks []map[surface]reading
	for _, s := range samples {
		ticks = append(ticks, s.ticks...)
	}
	if want := 4 * (len(samples) - 1); len(ticks) < want {
		t.Fatalf("%d samples of ticks, want %d at least", len(ticks), want)
	}
	run := []surface{surfacePage, surfaceJSON, surfaceReadyz, surfaceMetrics, surfaceLog}
	for i := 0; i+1 < len(ticks); i++ {
		reports := func(tick map[surface]reading) (yes, no []surface) {
			for _, name := range run {
				if _, ok := tick[name].found[x.want]; ok {
					yes = append(yes, name)
				} else {
					no = append(no, name)
				}
			}
			return yes, no
		}
		now, _ := reports(ticks[i])
		next, missing := reports(ticks[i+1])
		if len(now) > 0 && len(next) > 0 && len(missing) > 0 {
			t.Errorf("%d s after the incident began, %q report %s, and one tick later %q do not", 15*(i+1), now, x.want, missing)
		}
	}
}

// nothingReported asserts that no surface reports an abnormal condition.
func nothingReported(t *testing.T, s minuteSample) {
	t.Helper()
	for _, name := range surfaces {
		if r := s.readings[name]; len(r.found) > 0 || r.failed != "" {
			t.Errorf("minute %d: %s reports %v although nothing is wrong: %s", s.minute, name, r.keys(), r.failed)
		}
	}
}
