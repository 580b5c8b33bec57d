package ledger

import (
	"fmt"
	"time"

	"muster/generator/forecast"
	"muster/generator/plan"
)

// storedArrivals are jobs that came, by the minute.
type storedArrivals struct {
	From time.Time       `json:"from"`
	Jobs forecast.Series `json:"jobs,omitempty"`
	Idle forecast.Series `json:"idle,omitempty"`
}

// storeArrivals makes the stored form; nil where nothing was counted.
func storeArrivals(c forecast.Count) *storedArrivals {
	if c.From.IsZero() {
		return nil
	}
	stored := storedArrivals(c)
	return &stored
}

// count is the reverse of storeArrivals.
func (s *storedArrivals) count() forecast.Count {
	if s == nil {
		return forecast.Count{}
	}
	return forecast.Count(*s)
}

// ForecastSentence says what the forecast keeps and why; empty where there is none.
func ForecastSentence(d plan.Decision) string {
	f := d.Forecast
	if f == nil {
		return ""
	}
	day := "workday"
	if w := f.From.Weekday(); w == time.Saturday || w == time.Sunday {
		day = "weekend day"
	}
	if f.Days == 0 {
		return fmt.Sprintf("The forecast keeps no agent: it has not seen a whole %s yet.", day)
	}
	if f.Spent {
		return fmt.Sprintf("The forecast keeps no agent until midnight, UTC: agents waited for jobs for %.0f hours today, which is what idleHours allows.", f.IdleHours)
	}
	said := fmt.Sprintf("The forecast for %s to %s UTC keeps %d: some %.1f jobs come in %s then, by %s that %s seen and by the last hour",
		f.From.Format("15:04"), f.To.Format("15:04"), f.Keep, f.Jobs, f.Window, Count(f.Days, day), pick(f.Days, "was", "were"))
	if f.Free > 0 {
		said += fmt.Sprintf(", beside %s that %s free by then", Count(f.Free, "agent"), pick(f.Free, "becomes", "become"))
	}
	return said + fmt.Sprintf("; the last of them is needed with a probability of %.0f %% or more, which takes some %.0f idle hours today for %.0f %% of the jobs.",
		100*f.Worth, f.IdleHours, 100*f.Share)
}
