package deployed_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"muster/generator/metrics"
	"muster/testdata/prometheus/deployed"
)

// ofTargets are the labels that a PodMonitor adds, and le that of histograms.
var ofTargets = []string{"namespace", "pod", "job", "instance", "le"}

// known are the labels of muster's series, histograms' by the names of their
// series.
func known() map[string][]string {
	all := map[string][]string{}
	for _, d := range metrics.Definitions() {
		if d.Type != "histogram" {
			all[d.Name] = d.Labels
			continue
		}
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			all[d.Name+suffix] = d.Labels
		}
	}
	return all
}

// strangers are the metrics and labels of an expression that muster does not serve.
func strangers(t *testing.T, expr string) []string {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return []string{err.Error()}
	}
	served, of := known(), slices.Clone(ofTargets)
	var all []string
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if v, ok := node.(*parser.VectorSelector); ok {
			if _, ok := served[v.Name]; !ok {
				all = append(all, v.Name)
			}
			of = append(of, served[v.Name]...)
			for _, m := range v.LabelMatchers {
				if m.Name != model.MetricNameLabel && !slices.Contains(slices.Concat(served[v.Name], ofTargets), m.Name) {
					all = append(all, v.Name+" by "+m.Name)
				}
			}
		}
		return nil
	})
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		var names []string
		switch n := node.(type) {
		case *parser.AggregateExpr:
			names = n.Grouping
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				names = n.VectorMatching.MatchingLabels
			}
		}
		for _, name := range names {
			if !slices.Contains(of, name) {
				all = append(all, "by "+name)
			}
		}
		return nil
	})
	return all
}

// inAnnotations matches the queries in annotations.
var inAnnotations = regexp.MustCompile(`printf "([^"]+)"`)

// TestExpressions: Prometheus can parse all expressions of alerts, their annotations and the
// dashboard, and their metrics and labels are muster's.
func TestExpressions(t *testing.T) {
	groups, _, err := deployed.Rules()
	if err != nil {
		t.Fatal(err)
	}
	queries, err := deployed.Queries()
	if err != nil || len(queries) < 30 {
		t.Fatalf("the dashboard has %d queries, %v", len(queries), err)
	}
	for _, g := range groups {
		for _, r := range g.Rules {
			queries = append(queries, deployed.Query{Panel: r.Alert, Expr: r.Expr})
			for _, found := range inAnnotations.FindAllStringSubmatch(r.Annotations["summary"]+r.Annotations["description"], -1) {
				queries = append(queries, deployed.Query{Panel: r.Alert, Expr: strings.ReplaceAll(found[1], "%s", "a")})
			}
		}
	}
	for _, q := range queries {
		if found := strangers(t, q.Expr); len(found) > 0 {
			t.Errorf("%s: %q are not served: %s", q.Panel, found, q.Expr)
		}
	}
}

// TestStrangers: what is not served is found.
func TestStrangers(t *testing.T) {
	for expr, want := range map[string]string{
		"muster_pending": "muster_pending", `muster_interval_seconds{overlay="a"}`: "muster_interval_seconds by overlay", "sum by (queue) (muster_pending_jobs)": "by queue",
		"muster_tick_seconds": "muster_tick_seconds", "muster_interval_seconds == on (service) muster_build_info": "by service",
	} {
		if got := strangers(t, expr); !slices.Contains(got, want) {
			t.Errorf("%s: found %q, want %q", expr, got, want)
		}
	}
}

// TestAlertsSayWhatToDo: each has what Alertmanager shows and a section of its own
// in docs/reference/alerts.md, which has no other.
func TestAlertsSayWhatToDo(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "reference", "alerts.md"))
	if err != nil {
		t.Fatal(err)
	}
	var sections, alerts []string
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "## Muster"); ok {
			sections = append(sections, "Muster"+strings.TrimSpace(name))
		}
	}
	groups, _, err := deployed.Rules()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		for _, r := range g.Rules {
			alerts = append(alerts, r.Alert)
			if r.Annotations["summary"] == "" || len(r.Annotations["description"]) < len(r.Annotations["summary"]) {
				t.Errorf("%s has the annotations %q", r.Alert, r.Annotations)
			}
			if want := "https://docs.example.com/muster/docs/reference/alerts.md#" + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
				t.Errorf("%s has the runbook %q, want %q", r.Alert, r.Annotations["runbook_url"], want)
			}
			if strings.Contains(r.Annotations["description"], "muster.dev/overlay=") {
				t.Errorf("%s selects by the overlay's name, from which the label differs: %s", r.Alert, r.Annotations["description"])
			}
			if !slices.Contains([]string{"critical", "warning"}, r.Labels["severity"]) {
				t.Errorf("%s has the severity %q", r.Alert, r.Labels["severity"])
			}
			if d, err := model.ParseDuration(r.For); err != nil || d == 0 {
				t.Errorf("%s is raised at once: for is %q, %v", r.Alert, r.For, err)
			}
		}
	}
	if !slices.Equal(sections, alerts) {
		t.Errorf("docs/reference/alerts.md has sections for %q, and the alerts are %q", sections, alerts)
	}
}
