package page

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	audit "muster/generator/history"
	"muster/generator/ledger"
	"muster/generator/report"
	"muster/gitops/branch"
)

// TestThin asserts that the maximum values, and those at the end of an interval, are kept in
// the given number of points.
func TestThin(t *testing.T) {
	from := time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC)
	samples := []audit.Sample{{At: from.Add(-time.Hour), Busy: 1}}
	for i := range 3000 {
		s := audit.Sample{At: from.Add(time.Duration(i) * time.Minute), Busy: i % 7}
		if i == 1234 {
			s.Busy, s.Oldest = 99, s.At.Add(-5*time.Minute)
		}
		if i > 2000 {
			continue // nothing more is known
		}
		samples = append(samples, s)
	}
	to := from.Add(3000 * time.Minute)
	all := thin(samples, from, to, 100)
	most, oldest := 0.0, 0.0
	for i, d := range all {
		if i > 0 && !d.at.After(all[i-1].at) {
			t.Errorf("point %d is at %s, after %s", i, d.at, all[i-1].at)
		}
		most, oldest = max(most, d.values[busy]), max(oldest, d.values[quantities])
	}
	if len(all) > 100 || len(all) < 20 || most != 99 || oldest != 5 || !all[0].at.Equal(from) {
		t.Errorf("%d points from %s, at most %v busy, oldest %v min", len(all), all[0].at, most, oldest)
	}
	if got := thin(samples[:3], from, to, 100); len(got) != 3 {
		t.Errorf("%d points of 3 samples", len(got))
	}
	if got := thin([]audit.Sample{{At: from, Busy: -1}}, from, to, 100); !math.IsNaN(got[0].values[busy]) {
		t.Errorf("what is not known is %v", got[0].values[busy])
	}
}

// TestWriteReport asserts that a report is limited, names what is omitted, and escapes names.
func TestWriteReport(t *testing.T) {
	at := time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC)
	r := report.Report{From: at, To: at.Add(time.Hour)}
	for i := range maxCharts + 3 {
		o := report.Overlay{Name: fmt.Sprint(hostile, i), Samples: []audit.Sample{{At: at, Pending: 1}, {At: at.Add(time.Minute)}}}
		o.Ordered = []ledger.Operation{{Commit: branch.Commit{ID: "c0ffee", At: at}, Orders: []ledger.Order{{Agents: 3}}, Why: "</script><script>alert(1)</script>"}}
		r.Overlays = append(r.Overlays, o)
	}
	r.LeftOut.Operations = 5
	r.Operations = []ledger.Operation{{Commit: branch.Commit{ID: "c0ffee", At: at}, Kind: ledger.Dispatch, Orders: []ledger.Order{{ID: "a", Agents: 3}}, Outcome: &ledger.Outcome{State: ledger.InFlight}, Text: hostile + "\n\nWhy: " + hostile}}
	var page bytes.Buffer
	if err := WriteReport(&page, r, report.Price{}); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	for _, want := range []string{"3 more overlays are only in the tables.", "The figures include 5 more", "in flight, 0 of 3 registered"} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q", want)
		}
	}
	for _, each := range []string{"<figure", `<p class="summary">0 agents ordered in 0 commits`} {
		if n := strings.Count(text, each); n != maxCharts {
			t.Errorf("%d times %s, want %d", n, each, maxCharts)
		}
	}
	if strings.Contains(text, "<script") {
		t.Error("the page has a script")
	}
	if strings.Contains(text, `src="http`) {
		t.Error("the page asks for something")
	}
}
