package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestRetiredInOneCommit: orders go together as far as one commit takes them, the oldest
// first; one that is larger goes in parts, and what is withdrawn is two files.
func TestRetiredInOneCommit(t *testing.T) {
	start := time.Date(2026, 1, 5, 6, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		orders string // a digit for each dispatch: the minute of its order; w: to be withdrawn
		most   int
		want   string // the dispatches that go, by number
	}{
		{"0011", 0, "0123"},
		{"0011", 4, "0123"},
		{"0011", 3, "01"},
		{"1100", 3, "23"},
		{"00012", 4, "0123"},
		{"0000", 3, "012"},
		{"00001", 3, "012"},
		{"1w0w", 3, "1"}, // two files each
	} {
		s := share{supply: Supply{MaxJobs: c.most}}
		var all []Retirement
		for _, r := range c.orders {
			if r == 'w' {
				all[len(all)-1].Reason = Withdrawn
				continue
			}
			minute := start.Add(time.Duration(r-'0') * time.Minute)
			id := fmt.Sprint(len(all))
			s.overlay.Dispatches = append(s.overlay.Dispatches, Dispatch{ID: id, At: minute})
			all = append(all, Retirement{ID: id, Reason: Expired})
		}
		before := slices.Clone(all)
		var got strings.Builder
		for _, r := range s.inOneCommit(all) {
			got.WriteString(r.ID)
		}
		if got.String() != c.want || !slices.Equal(all, before) {
			t.Errorf("of %s one commit of %d takes %s, want %s", c.orders, c.most, got.String(), c.want)
		}
	}
}

// TestOrderedInOneCommit: an order has no more Jobs than one commit takes, and says what
// it leaves.
func TestOrderedInOneCommit(t *testing.T) {
	o := Overlay{Name: "a", Policy: Policy{Queue: "a", Max: 3000, Buffer: 700, Lease: time.Minute, IdleTimeout: time.Minute, WarmIdleTimeout: time.Hour}}
	look := Observation{At: time.Date(2026, 1, 5, 6, 0, 0, 0, time.UTC), Queue: "a", Jobs: []Demand{{Overlays: []string{"a"}, Pending: 1000}}, Overlays: []Supply{{Overlay: "a"}}}
	free := Decide("tip", []Overlay{o}, look)[0]
	if free.Sum.Dispatch != 1700 || len(free.Limits()) > 0 {
		t.Fatalf("without a bound: %d, %v", free.Sum.Dispatch, free.Limits())
	}
	look.Overlays[0].MaxJobs = 10
	d := Decide("tip", []Overlay{o}, look)[0]
	if len(d.Dispatch) > 10 || d.Sum.Dispatch != 900 || d.Sum.MaxAtOnce != 900 || d.Sum.Room != 3000 {
		t.Errorf("%d Jobs for %d agents, at most %d, room for %d", len(d.Dispatch), d.Sum.Dispatch, d.Sum.MaxAtOnce, d.Sum.Room)
	}
	if limits := d.Limits(); len(limits) != 1 || limits[0] != (Limit{Name: "commit", Agents: 800, Why: "one commit orders at most 900"}) {
		t.Errorf("the limits are %v", limits)
	}
	if s := d.Steps()[StepDispatch]; s.ActiveBounds()[0].Name != "maxAtOnce" || s.Value != 900 {
		t.Errorf("the step is %+v", s)
	}
}
