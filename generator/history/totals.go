package history

import (
	"maps"
	"slices"
	"time"

	"muster/generator/ledger"
)

// By is the key by which a digest groups rows.
type By string

// The keys of a digest. Days and hours are in UTC.
const (
	Day     By = "day"
	Hour    By = "hour"
	Overlay By = "overlay"
)

// layouts are the time formats of keys.
var layouts = map[By]string{Day: time.DateOnly, Hour: "2006-01-02T15:00Z"}

// Total is a line of a digest: the totals of the rows of one day, hour or overlay.
type Total struct {
	Key string `json:"key"`
	// Orders is the number of dispatch commits, and Agents the number of agents that they ordered.
	// Of those, Registered have registered, Lost did not register in time, InFlight may still
	// register, and the state of Unknown is not known.
	Orders     int `json:"orders"`
	Agents     int `json:"agents"`
	Registered int `json:"registered"`
	Lost       int `json:"lost"`
	InFlight   int `json:"inFlight"`
	Unknown    int `json:"unknown"`
	// FirstMean and FirstMax are the mean and the maximum of the seconds from an order to its first
	// agent; nil if none is known.
	FirstMean *int `json:"firstMean,omitempty"`
	FirstMax  *int `json:"firstMax,omitempty"`
	Retires   int  `json:"retires"`
	Repairs   int  `json:"repairs"`
	Malformed int  `json:"malformed"`
	// Edits is the number of rows of people.
	Edits int `json:"edits"`

	firstSum, firsts int
}

// Digest computes totals of rows. The zero value groups by overlay.
type Digest struct {
	By     By
	totals map[string]*Total
}

// Add adds a row.
func (d *Digest) Add(r ledger.Operation) {
	key := r.Overlay
	if layout := layouts[d.By]; layout != "" {
		key = r.At.UTC().Format(layout)
	}
	if d.totals == nil {
		d.totals = map[string]*Total{}
	}
	t := d.totals[key]
	if t == nil {
		t = &Total{Key: key}
		d.totals[key] = t
	}
	switch r.Kind {
	case ledger.Dispatch:
		t.order(r)
	case ledger.Withdraw, ledger.Retire:
		t.Retires++
	case ledger.Repair:
		t.Repairs++
	case ledger.Damaged:
		t.Malformed++
	default:
		t.Edits++
	}
}

// order adds the row of a dispatch.
func (t *Total) order(r ledger.Operation) {
	t.Orders++
	t.Agents += r.Agents()
	o := r.Outcome
	if o == nil {
		return
	}
	t.Registered += o.Registered
	t.Lost += r.Lost()
	switch o.State {
	case ledger.InFlight:
		t.InFlight += r.Agents() - o.Registered
	case ledger.OutcomeUnknown:
		t.Unknown += r.Agents() - o.Registered
	case ledger.Retired:
	}
	if o.FirstAfter != nil {
		t.firsts++
		t.firstSum += *o.FirstAfter
		mean, most := (t.firstSum+t.firsts/2)/t.firsts, *o.FirstAfter
		if t.FirstMax != nil {
			most = max(most, *t.FirstMax)
		}
		t.FirstMean, t.FirstMax = &mean, &most
	}
}

// Totals returns the totals: days and hours newest first, overlays by name.
func (d *Digest) Totals() []Total {
	var all []Total
	for _, key := range slices.Sorted(maps.Keys(d.totals)) {
		all = append(all, *d.totals[key])
	}
	if layouts[d.By] != "" {
		slices.Reverse(all)
	}
	return all
}
