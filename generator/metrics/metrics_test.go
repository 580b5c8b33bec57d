package metrics_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"muster/generator"
	"muster/generator/ledger"
	"muster/generator/metrics"
	"muster/generator/plan"
	"muster/generator/status"
)

var update = flag.Bool("update", false, "write the list of docs/reference/metrics.md")

func start() time.Time { return time.Date(2026, time.January, 5, 8, 0, 0, 0, time.UTC) }

// full are metrics after a tick in which everything that can be served is there.
func full(t testing.TB) *metrics.Metrics {
	t.Helper()
	m := after(t, report("linux/large", "default"))
	m.Webhooks("buildkite", "triggered", 1)
	m.JobNotes("sent", 1)
	return m
}

// after are metrics at the end of one tick.
func after(t testing.TB, r generator.Report) *metrics.Metrics {
	t.Helper()
	return at(t, r, r.Ended)
}

// at are metrics at a time after one tick.
func at(t testing.TB, r generator.Report, now time.Time) *metrics.Metrics {
	t.Helper()
	recorder := status.NewRecorder(status.Config{
		Muster: status.Muster{Version: "v1", Commit: "abc"}, Started: start(), Interval: 15 * time.Second, Longest: time.Minute,
		TokenExpires: func() time.Time { return start().AddDate(0, 0, 9) },
		Receivers:    func() []status.Receiver { return []status.Receiver{{Name: "flux", Sent: 3, Seconds: 0.2}} },
		Services: func() []status.Service {
			return []status.Service{{Name: "git", Requests: 7, Failures: 1, Sent: 100, Received: 2000, Limits: []status.Limit{{Scope: "rest", Limit: 50, Remaining: 9}}}}
		},
	})
	m, err := metrics.New(recorder.Snapshot, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	recorder.Began(r.Began)
	recorder.Ended(r)
	m.Ended(r)
	return m
}

// report is of a tick that found one pending job for each of some overlays, and
// did something of each kind.
func report(names ...string) generator.Report {
	r := generator.Report{
		Began: start(), Ended: start().Add(time.Second), Next: start().Add(15 * time.Second), Outcome: generator.Committed, Cause: generator.CauseStart,
		Steps: map[generator.Step]time.Duration{generator.StepHead: time.Millisecond}, Git: start(), Buildkite: start(),
	}
	r.Result.Input.Snapshot.At = start()
	r.Result.Conflicts = 2
	oldest := start().Add(-90 * time.Second)
	for _, name := range names {
		queue := "of-" + name
		o := plan.Overlay{Name: name, Policy: plan.Policy{Queue: queue, Cluster: "ci"}}
		r.Result.Input.Overlays = append(r.Result.Input.Overlays, o)
		d := plan.Decision{
			Overlay: name, Queue: queue, Figures: plan.Figures{Pending: 1, Max: 5, Desired: 2},
			Observation: plan.Observation{At: start(), Queue: queue, Jobs: []plan.Demand{{Overlays: []string{name}, Pending: 1, Oldest: &oldest}}},
			Dispatch:    []plan.Dispatch{{ID: plan.Slug(name) + "-1", Purpose: plan.ForDemand, Agents: 2}},
			Retire:      []plan.Retirement{{ID: plan.Slug(name) + "-0", Agents: 4, Registered: 3, Reason: plan.Expired}, {ID: plan.Slug(name) + "-w", Agents: 1, Reason: plan.Withdrawn}},
		}
		r.Result.Decisions = append(r.Result.Decisions, d)
		for _, kind := range []ledger.Kind{ledger.Dispatch, ledger.Retire} {
			r.Result.Operations = append(r.Result.Operations, ledger.Draft{Kind: kind, Path: "overlays/" + name, Decision: d})
		}
	}
	r.Result.Suspended = []generator.Suspended{{Overlay: names[0], Why: plan.Suspension{Code: plan.Paused}}}
	r.Conditions = r.Result.Conditions(start())
	return r
}

func gather(t testing.TB, m *metrics.Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	all, err := m.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*dto.MetricFamily{}
	for _, f := range all {
		byName[f.GetName()] = f
	}
	return byName
}

// pronoun matches words of a help text that need the text before it.
var pronoun = regexp.MustCompile(`(?i)\b(they|them|those that|those without|it|its)\b`)

// TestDefinitions: what is served is what is defined, with its type, labels and
// help; nothing of muster's is missing, and each help text stands alone.
func TestDefinitions(t *testing.T) {
	served := gather(t, full(t))
	for _, d := range metrics.Definitions() {
		f := served[d.Name]
		if f == nil {
			t.Errorf("%s is not served", d.Name)
			continue
		}
		labels := []string{}
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		want := slices.Sorted(slices.Values(d.Labels))
		if kind := strings.ToLower(f.GetType().String()); kind != d.Type || f.GetHelp() != d.Help || !slices.Equal(labels, want) {
			t.Errorf("%s is served as a %s with the labels %q: %s", d.Name, kind, labels, f.GetHelp())
		}
		if pronoun.MatchString(d.Help) || !strings.HasSuffix(d.Help, ".") {
			t.Errorf("%s has a help text that does not stand alone: %s", d.Name, d.Help)
		}
		delete(served, d.Name)
	}
	for name := range served {
		if !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			t.Errorf("%s is served and not defined", name)
		}
	}
}

// TestOutdatedFigures asserts which metrics have no value while the last poll is outdated.
func TestOutdatedFigures(t *testing.T) {
	r := report("default")
	fresh, outdated := gather(t, after(t, r)), gather(t, at(t, r, r.Ended.Add(time.Hour)))
	var omitted []string
	for _, d := range metrics.Definitions() {
		if fresh[d.Name] != nil && outdated[d.Name] == nil {
			omitted = append(omitted, strings.TrimPrefix(d.Name, "muster_"))
		}
	}
	want := []string{
		"busy_agents", "current_agents", "desired_agents", "failed_agents", "idle_agents", "in_flight_agents", "missing_agents",
		"oldest_pending_seconds", "overdue_agents", "pending_jobs", "queue_pending_jobs", "stopping_agents", "unmatched_jobs",
	}
	if diff := cmp.Diff(want, omitted); diff != "" {
		t.Errorf("omitted (-want +got):\n%s", diff)
	}
}

// TestOverdueAndFailedAgents asserts the values for an overlay whose orders fail.
func TestOverdueAndFailedAgents(t *testing.T) {
	failing := func(a plan.Arrival, b plan.Breaker) map[string]float64 {
		r := report("linux")
		r.Result.Decisions[0].Arrival, r.Result.Decisions[0].State.Breaker = a, b
		got := map[string]float64{}
		served := gather(t, after(t, r))
		got["overdue"] = served["muster_overdue_agents"].GetMetric()[0].GetGauge().GetValue()
		for _, m := range served["muster_failed_agents"].GetMetric() {
			if v := m.GetGauge().GetValue(); v > 0 {
				got[m.GetLabel()[0].GetValue()] = v
			}
		}
		return got
	}
	for name, test := range map[string]struct {
		arrival plan.Arrival
		breaker plan.Breaker
		want    map[string]float64
	}{
		"normal":            {want: map[string]float64{"overdue": 0}},
		"overdue":           {plan.Arrival{Agents: 10, Registered: 3}, plan.Breaker{}, map[string]float64{"overdue": 7}},
		"failed":            {plan.Arrival{Agents: 1, FailedOrders: 2}, plan.Breaker{Failures: 2, Agents: 12, Cause: plan.NeverRegistered}, map[string]float64{"overdue": 1, "never-registered": 12}},
		"agents registered": {plan.Arrival{}, plan.Breaker{Failures: 2, Agents: 12, Cause: plan.NeverRegistered}, map[string]float64{"overdue": 0}},
		"breaker open":      {plan.Arrival{}, plan.Breaker{Failures: 3, Agents: 4, Cause: plan.NoJobTaken}, map[string]float64{"overdue": 0, "no-job-taken": 4}},
	} {
		if diff := cmp.Diff(test.want, failing(test.arrival, test.breaker)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestLint: Prometheus' own linter has nothing to say.
func TestLint(t *testing.T) {
	problems, err := testutil.GatherAndLint(full(t).Registry())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestDocs compares the list in docs/reference/metrics.md with the definitions.
func TestDocs(t *testing.T) {
	const begin, end = "<!-- begin: metrics -->\n", "<!-- end: metrics -->\n"
	var list strings.Builder
	for _, d := range metrics.Definitions() {
		name := d.Name
		if len(d.Labels) > 0 {
			name += "{" + strings.Join(d.Labels, ",") + "}"
		}
		fmt.Fprintf(&list, "- `%s` %s: %s\n", name, d.Type, d.Help)
	}
	file := filepath.Join("..", "..", "docs", "reference", "metrics.md")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	got, behind, ok2 := strings.Cut(rest, end)
	switch {
	case !ok || !ok2:
		t.Fatal("docs/reference/metrics.md has no place for the list")
	case got == list.String():
	case *update:
		if err := os.WriteFile(file, []byte(before+begin+list.String()+end+behind), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("docs/reference/metrics.md is behind: run go test ./generator/metrics -update (-docs +want)\n%s", cmp.Diff(got, list.String()))
	}
}
