package history

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/generator/ledger"
	"muster/generator/plan"
)

// LimitedPeriod is how far back [Limited] counts.
const LimitedPeriod = 7 * 24 * time.Hour

// Limited counts the orders of each overlay, and those that a limit of the policy kept from having more agents. The
// zero value is ready to use. Orders may be added in any order.
type Limited struct {
	// From is the time of the oldest commit that was read; zero if all of the period were.
	From   time.Time
	orders map[string]map[limitedHour]int // by overlay
}

// limitedHour is an hour, counted from 1970, and a limit as in "max 10"; empty without one.
type limitedHour struct {
	hour  int64
	limit string
}

// Read adds the orders of a log, which must be newest first, from the period before now. It returns an error of
// the log, except that the log is not complete.
func (l *Limited) Read(log iter.Seq2[ledger.Operation, error], now time.Time) error {
	since := now.Add(-LimitedPeriod)
	var oldest time.Time
	for o, err := range (ledger.Stop{Since: since, People: maxOld}).Apply(log) {
		if errors.Is(err, ledger.ErrCut) {
			l.From = oldest
			return nil
		}
		if err != nil {
			return err
		}
		oldest = o.At
		if !o.Decided.Before(since) {
			l.Add(o)
		}
	}
	return nil
}

// Add adds an operation. Trials do not count, nor does anything but orders.
func (l *Limited) Add(o ledger.Operation) {
	if o.Kind != ledger.Dispatch || o.Trial() {
		return
	}
	if l.orders == nil {
		l.orders = map[string]map[limitedHour]int{}
	}
	if l.orders[o.Overlay] == nil {
		l.orders[o.Overlay] = map[limitedHour]int{}
	}
	l.orders[o.Overlay][limitedHour{o.Decided.Unix() / 3600, strings.Clone(o.Limit)}]++
}

// Forget removes the hours that began before the period before now.
func (l *Limited) Forget(now time.Time) {
	since := now.Add(-LimitedPeriod)
	if l.From.Before(since) {
		l.From = time.Time{}
	}
	for name, hours := range l.orders {
		for h := range hours {
			if h.hour*3600 < since.Unix() {
				delete(hours, h)
			}
		}
		if len(hours) == 0 {
			delete(l.orders, name)
		}
	}
}

// Overlays returns the names of overlays with orders, sorted.
func (l *Limited) Overlays() []string { return slices.Sorted(maps.Keys(l.orders)) }

// LimitedBy is how often a field of a policy limited the orders of its overlay.
type LimitedBy struct {
	// Field is max or maxPerHour.
	Field string
	// Limited of the Orders had fewer agents than jobs, min and buffer needed, in a number of different Hours.
	Limited, Orders, Hours int
	from                   time.Time
}

// String describes the figures, as in "limited 34 of 120 orders of the last 7 days, in 14 different hours".
func (x LimitedBy) String() string {
	period := "of the last 7 days"
	if !x.from.IsZero() {
		period = "since " + x.from.UTC().Format("2006-01-02 15:04") + " UTC"
	}
	hours := "all within one hour"
	if x.Hours > 1 {
		hours = fmt.Sprintf("in %d different hours", x.Hours)
	}
	return fmt.Sprintf("limited %d of %s %s, %s", x.Limited, ledger.Count(x.Orders, "order"), period, hours)
}

// Remedy returns what to do about the limit.
func (x LimitedBy) Remedy() string {
	if x.Field == "max" {
		return "raise it if the nodes hold more agents"
	}
	return "raise it if the load is intended"
}

// Limits from which [Limited.By] returns a field: a healthy overlay is limited at times.
const (
	minLimited      = 3
	minLimitedShare = 0.05
)

// By returns the fields of a policy that limited at least 3 orders of an overlay, and 5 % of them. Orders that a
// lower value limited than the policy and its schedules have now do not count as limited.
func (l *Limited) By(overlay string, p plan.Policy) []LimitedBy {
	least := map[string]int{"max": p.Max, "maxPerHour": p.MaxPerHour}
	for _, s := range p.Schedules {
		if s.Max != nil {
			least["max"] = min(least["max"], *s.Max)
		}
	}
	var all []LimitedBy
	for _, field := range []string{"max", "maxPerHour"} {
		x := LimitedBy{Field: field, from: l.From}
		hours := map[int64]bool{}
		for h, n := range l.orders[overlay] {
			x.Orders += n
			name, value, _ := strings.Cut(h.limit, " ")
			if limit, err := strconv.Atoi(value); err == nil && name == field && limit >= least[field] && (field == "max" || least[field] > 0) {
				x.Limited += n
				hours[h.hour] = true
			}
		}
		if x.Hours = len(hours); x.Limited >= minLimited && float64(x.Limited) >= minLimitedShare*float64(x.Orders) {
			all = append(all, x)
		}
	}
	return all
}
