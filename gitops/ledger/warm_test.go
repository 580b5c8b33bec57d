package ledger

import (
	"strings"
	"testing"
	"time"

	"muster/generator/forecast"
	"muster/generator/plan"

	"github.com/google/go-cmp/cmp"
)

// TestArrivalsAreReadAgain: what was counted is read as it was, also where it is nothing,
// and an overlay without a forecast says nothing of it.
func TestArrivalsAreReadAgain(t *testing.T) {
	at := time.Date(2026, 1, 12, 10, 0, 30, 0, time.UTC)
	for text, count := range map[string]forecast.Count{
		"":                                  {},
		`"from":"2026-01-12T10:00:00Z"}`:    {From: at.Truncate(time.Minute)},
		`"from":"2026-01-12T10:00:00Z","jo`: {From: at.Truncate(time.Minute), Jobs: forecast.Series{0, 0, 3, 3, 1}},
	} {
		o := plan.Observation{At: at, Queue: "default", Overlays: []plan.Supply{{Overlay: "default", Arrivals: count}}}
		line := encodeObservation(o)
		if !strings.Contains(line, text) || strings.Contains(line, "arrivals") != (text != "") {
			t.Errorf("%+v is stored as %s", count, line)
		}
		read, err := decodeObservation(line)
		if diff := cmp.Diff(o, read); diff != "" || err != nil {
			t.Errorf("%s is read as (%v, -want +got):\n%s", line, err, diff)
		}
	}
	for _, jobs := range []string{"-1", "1*99999999", "x"} {
		line := `{"version":2,"at":"2026-01-12T10:00:30Z","queue":"q","overlays":[{"overlay":"a","arrivals":{"from":"2026-01-12T10:00:00Z","jobs":"` + jobs + `"}}]}`
		if _, err := decodeObservation(line); err == nil {
			t.Errorf("jobs %q are read", jobs)
		}
	}
}

// TestForecastSentence: a commit says what was expected, why so many, and what it costs.
func TestForecastSentence(t *testing.T) {
	d := plan.Decision{}
	if got := ForecastSentence(d); got != "" {
		t.Errorf("without a forecast: %q", got)
	}
	monday := time.Date(2026, 1, 12, 9, 55, 0, 0, time.UTC)
	d.Forecast = &forecast.Forecast{From: monday, To: monday.Add(5 * time.Minute), Window: "1m20s"}
	if got, want := ForecastSentence(d), "The forecast keeps no agent: it has not seen a whole workday yet."; got != want {
		t.Errorf("on the first day:\n%s\nwant\n%s", got, want)
	}
	d.Forecast.Days, d.Forecast.Keep, d.Forecast.Jobs, d.Forecast.Free = 5, 59, 59.89, 2
	d.Forecast.Worth, d.Forecast.Share, d.Forecast.IdleHours = 0.506, 0.951, 18
	if got, want := ForecastSentence(d), "The forecast for 09:55 to 10:00 UTC keeps 59: some 59.9 jobs come in 1m20s then, by 5 workdays that were seen and by the last hour, "+
		"beside 2 agents that become free by then; the last of them is needed with a probability of 51 % or more, which takes some 18 idle hours today for 95 % of the jobs."; got != want {
		t.Errorf("on a workday:\n%s\nwant\n%s", got, want)
	}
	d.Forecast = &forecast.Forecast{From: monday, To: monday.Add(5 * time.Minute), Window: "1m20s", Days: 5, IdleHours: 40.3, Spent: true}
	if got, want := ForecastSentence(d), "The forecast keeps no agent until midnight, UTC: agents waited for jobs for 40 hours today, which is what idleHours allows."; got != want {
		t.Errorf("when the hours are spent:\n%s\nwant\n%s", got, want)
	}
}
