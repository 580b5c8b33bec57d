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

// TestThin asserts that the maximum values are kept in the given number of points, and that no point follows
// the last sample.
func TestThin(t *testing.T) {
	from := time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC)
	var samples []audit.Sample
	for i := range 2000 {
		s := audit.Sample{At: from.Add(time.Duration(i) * time.Minute), Busy: i % 7}
		if i == 1234 {
			s.Busy, s.Oldest = 99, s.At.Add(-5*time.Minute)
		}
		samples = append(samples, s)
	}
	to := from.Add(3000 * time.Minute) // nothing more is known
	all := thin(samples, from, to, 100)
	most, oldest := 0.0, 0.0
	for i, d := range all {
		if i > 0 && !d.at.After(all[i-1].at) {
			t.Errorf("point %d is at %s, after %s", i, d.at, all[i-1].at)
		}
		most, oldest = max(most, d.values[drawnBusy]), max(oldest, d.values[drawnAge])
	}
	if len(all) > 100 || len(all) < 20 || most != 99 || oldest != 5 || !all[0].at.Equal(from) || all[len(all)-1].at.After(samples[1999].At) {
		t.Errorf("%d points from %s, at most %v busy, oldest %v min", len(all), all[0].at, most, oldest)
	}
	if got := thin(samples[:3], from, to, 100); len(got) != 3 {
		t.Errorf("%d points of 3 samples", len(got))
	}
	if got := thin([]audit.Sample{{At: from, Busy: -1}}, from, to, 100); !math.IsNaN(got[0].values[drawnBusy]) {
		t.Errorf("what is not known is %v", got[0].values[drawnBusy])
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
	r.EditsLeftOut = 5
	r.Edits = []ledger.Operation{{Commit: branch.Commit{ID: "c0ffee", At: at, Author: hostile}, Kind: ledger.Policy, Why: hostile}}
	r.Outliers = []report.Outlier{{At: at, Overlay: hostile, What: "a job waited 3 min", Commit: "c0ffee"}}
	var page bytes.Buffer
	if err := WriteReport(&page, r, report.Price{}, "git@github.com:acme/fleet.git"); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	for _, want := range []string{"3 more overlays are only in the table.", "5 more are not listed.", "a job waited 3 min", `href="https://github.com/acme/fleet/commit/c0ffee"`} {
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
