package page

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"muster/generator"
	"muster/generator/plan"
	"muster/generator/status"
)

// BenchmarkTick is what the page adds to a tick of 50 overlays after a day in which
// every tick has seen changes, and BenchmarkHTML what a look at it costs.
func BenchmarkTick(b *testing.B) {
	p := newDay(b)
	for b.Loop() {
		p.Ended(p.report)
	}
}

func BenchmarkHTML(b *testing.B) {
	p := newDay(b)
	for b.Loop() {
		p.html(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	}
}

// day is a page that has seen many changes of 50 overlays.
type day struct {
	*Page
	report generator.Report
}

func newDay(b *testing.B) day {
	b.Helper()
	recorder := status.NewRecorder(status.Config{Started: begin(), Interval: 15 * time.Second})
	d := day{Page: New(Config{Status: recorder.Snapshot, Now: begin, Overlays: "overlays"})}
	b.Cleanup(d.Close)
	for i := range maxPoints {
		at := begin().Add(time.Duration(i) * 15 * time.Second)
		d.report = generator.Report{Began: at, Ended: at}
		for n := range 50 {
			d.report.Result.Decisions = append(d.report.Result.Decisions, decided(fmt.Sprint("overlay-", n), at, plan.Sum{Pending: i % 7}))
		}
		recorder.Ended(d.report)
		d.Ended(d.report)
	}
	return d
}
