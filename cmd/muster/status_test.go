package main

import (
	"errors"
	"iter"
	"slices"
	"testing"
	"time"

	"muster/cmd/output"
	"muster/generator/fleet"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"

	"pgregory.net/rapid"
)

// pastOperations yields records, the newest first, and counts those that were read.
func pastOperations(read *int, entries ...ledger.Operation) iter.Seq2[ledger.Operation, error] {
	return func(yield func(ledger.Operation, error) bool) {
		for _, e := range entries {
			*read++
			if e.Path == "" {
				e.Kind, e.Damage = ledger.Damaged, &ledger.Malformed{Problem: "edited"}
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func dispatchedAt(overlay string, age time.Duration, agents int) ledger.Operation {
	return ledger.Operation{Commit: branch.Commit{At: start.Add(-age)}, Path: overlay, Kind: ledger.Dispatch, Queue: "q", Decided: start.Add(-age), Orders: []ledger.Order{{ID: "x", Agents: agents}}, Observation: plan.Observation{At: start.Add(-age), Queue: "q"}}
}

// TestStatusReadsNoMoreThanNecessary asserts that status reads the last hour, and the last
// operation by muster of each overlay. It lists the operations of commands too.
func TestStatusReadsNoMoreThanNecessary(t *testing.T) {
	overlays := []fleet.Overlay{{Overlay: plan.Overlay{Name: "a"}, Path: "overlays/a"}, {Overlay: plan.Overlay{Name: "b"}, Path: "overlays/b"}}
	a := func(age time.Duration, agents int) ledger.Operation { return dispatchedAt("overlays/a", age, agents) }
	retired := a(time.Minute, 50)
	retired.Kind = ledger.Retire
	read := 0
	f, err := output.ReadStatus(overlays, "c0ffee", start, pastOperations(&read,
		a(-time.Minute, 1), // made by a clock that is ahead
		retired, a(4*time.Minute, 2), a(5*time.Minute, 3), ledger.Operation{Commit: branch.Commit{At: start.Add(-6 * time.Minute)}}, a(59*time.Minute, 4), a(time.Hour, 5),
		dispatchedAt("overlays/b", 2*time.Hour, 6), a(3*time.Hour, 7), a(4*time.Hour, 8)))
	check(t, err)
	if want := []int{4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 3}; !slices.Equal(f.Overlays[0].Ordered, want) {
		t.Errorf("ordered %v, want %v", f.Overlays[0].Ordered, want)
	}
	if ops := f.Overlays[1].Operations; len(ops) != 1 || ops[0].Agents() != 6 {
		t.Errorf("the last operation of b is not found: %+v", ops)
	}
	if read != 9 {
		t.Errorf("%d commits were read: the first one that is not needed is the 9th", read)
	}
	read = 0
	cancelled := dispatchedAt("overlays/b", time.Minute, 6)
	cancelled.Kind, cancelled.Queue, cancelled.Observation = ledger.Cancel, "", plan.Observation{}
	all := []ledger.Operation{}
	for range 11 { // more than are listed
		all = append(all, cancelled)
	}
	f, err = output.ReadStatus(overlays, "c0ffee", start, pastOperations(&read, append(all, a(4*time.Minute, 2), dispatchedAt("overlays/b", 2*time.Hour, 6), a(3*time.Hour, 7))...))
	check(t, err)
	if ops := f.Overlays[1].Operations; len(ops) != 10 || ops[0].Kind != ledger.Cancel || read != 14 {
		t.Errorf("with cancelled orders, %d commits were read: %+v", read, ops)
	}
	if want := make([]int, 12); !slices.Equal(f.Overlays[1].Ordered, want) {
		t.Errorf("cancelled orders count as ordered: %v", f.Overlays[1].Ordered)
	}
	broken := func(yield func(ledger.Operation, error) bool) { yield(ledger.Operation{}, errors.New("network")) }
	if _, err := output.ReadStatus(overlays, "c0ffee", start, broken); err == nil {
		t.Error("an error of the history is lost")
	}
}

// TestReplayedDesiredIsEqual asserts that a decision repeated with its orders in git has the
// same number of desired agents, or of those that it has if they are more. Exceptions are an open circuit breaker, for which agents in
// flight do not count, and an order that one commit cannot contain.
func TestReplayedDesiredIsEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		overlays, o := drawQueue(t)
		for i := range overlays {
			overlays[i].State, o.Overlays[i].MaxJobs = plan.State{}, 0
		}
		decided := plan.Decide("c0ffee", overlays, o)
		for _, d := range decided {
			for i := range overlays {
				if overlays[i].Name == d.Overlay {
					overlays[i].Dispatches = append(overlays[i].Dispatches, d.Dispatch...)
					overlays[i].State = d.State
				}
			}
		}
		again := plan.Decide("beef", overlays, o)
		for i, d := range again {
			// Agents that were ordered may make others unnecessary, but none ends for that.
			target := func(s plan.Figures) int { return min(s.Max, max(s.Desired, s.Current-s.Replacing-s.Overdue)) }
			before := decided[i]
			if target(d.Figures) != target(before.Figures) || d.Figures.BeyondMax() != before.Figures.BeyondMax() {
				t.Fatalf("%s: desired %d, then %d\n%+v\n%+v", d.Overlay, before.Figures.Desired, d.Figures.Desired, before.Figures, d.Figures)
			}
		}
	})
}

// TestLastHour asserts that the bars have one scale, and that the smallest number is visible.
func TestLastHour(t *testing.T) {
	for _, c := range []struct {
		ordered []int
		most    int
		want    string
	}{{[]int{0, 0}, 0, output.Unknown}, {[]int{0, 1, 50, 100}, 100, "·▁▄█ 151"}, {[]int{1, 0}, 1, "█· 1"}} {
		if got := output.LastHour(c.ordered, c.most); got != c.want {
			t.Errorf("%v: %s, want %s", c.ordered, got, c.want)
		}
	}
}
