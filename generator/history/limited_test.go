package history

import (
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
)

// TestLimited asserts which limits of the orders of a week are reported: of a field, a share and a number that matter,
// and with a value that the policy still has.
func TestLimited(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.November, 21, 2, 55, 0, 0, time.UTC)
	fifty := 50
	for _, c := range []struct {
		name   string
		limits string // of orders, a quarter of an hour apart, the newest first
		free   int    // orders without a limit before them
		policy plan.Policy
		want   string
	}{
		{"no orders", "", 0, plan.Policy{Max: 10}, ""},
		{"max", "max 10,max 10,max 10", 57, plan.Policy{Max: 10}, "max limited 3 of 60 orders of the last 7 days, all within one hour"},
		{"two orders", "max 10,max 10", 2, plan.Policy{Max: 10}, ""},
		{"below 5 %", "max 10,max 10,max 10", 58, plan.Policy{Max: 10}, ""},
		{"several hours", "max 10,,,,max 10,,,,max 10", 0, plan.Policy{Max: 10}, "max limited 3 of 9 orders of the last 7 days, in 3 different hours"},
		{"raised since", "max 10,max 10,max 10", 0, plan.Policy{Max: 11}, ""},
		{"lowered since", "max 10,max 10,max 10", 0, plan.Policy{Max: 9}, "max limited 3 of 3 orders of the last 7 days, all within one hour"},
		{"of a schedule", "max 50,max 50,max 50", 0, plan.Policy{Max: 60, Schedules: []plan.Schedule{{}, {Max: &fifty}}}, "max limited 3 of 3 orders of the last 7 days, all within one hour"},
		{"maxPerHour", "maxPerHour 90,maxPerHour 90,maxPerHour 90,max 10", 0, plan.Policy{Max: 10, MaxPerHour: 90}, "maxPerHour limited 3 of 4 orders of the last 7 days, all within one hour"},
		{"maxPerHour removed", "maxPerHour 90,maxPerHour 90,maxPerHour 90", 0, plan.Policy{Max: 10}, ""},
		{"other limits", "10 until one registers,10 until one registers,200 in one commit,200 in one commit", 0, plan.Policy{Max: 10}, ""},
	} {
		var log []ledger.Operation
		for i, limit := range strings.Split(c.limits+strings.Repeat(",", c.free), ",") {
			at := now.Add(-time.Duration(i) * 15 * time.Minute)
			log = append(log, ordered(at, limit))
		}
		if c.limits == "" && c.free == 0 {
			log = nil
		}
		old := ordered(now.Add(-LimitedPeriod-time.Second), "max 10")
		trial := ordered(now, "")
		trial.Orders = []ledger.Order{{Trial: true}}
		retired := ordered(now, "")
		retired.Kind = ledger.Retire
		other := ordered(now, "max 10")
		other.Overlay = "b"
		log = slices.Concat([]ledger.Operation{trial, retired, other}, log, []ledger.Operation{old})
		var l Limited
		if err := l.Read(chained(log), now); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, x := range l.By("a", c.policy) {
			got = append(got, x.Field+" "+x.String())
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s: %q, want %q", c.name, text, c.want)
		}
		if l.Forget(now.Add(LimitedPeriod + time.Hour)); len(l.Overlays()) > 0 {
			t.Errorf("%s: %q are not forgotten", c.name, l.Overlays())
		}
	}
}

// TestLimitedCut asserts that a shallow clone is described as what it is, and that an error of the log is returned.
func TestLimitedCut(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.November, 21, 2, 15, 0, 0, time.UTC)
	log := chained([]ledger.Operation{ordered(now, "max 10"), ordered(now.Add(-time.Minute), "max 10"), ordered(now.Add(-time.Hour), "max 10")})
	var l Limited
	if err := l.Read(log, now); err != nil {
		t.Fatal(err)
	}
	if all := l.By("a", plan.Policy{Max: 10}); len(all) != 1 || all[0].String() != "limited 3 of 3 orders since 2026-11-21 01:15 UTC, in 2 different hours" {
		t.Errorf("a shallow clone: %v", all)
	}
	broken := errors.New("no answer")
	if err := l.Read(func(yield func(ledger.Operation, error) bool) { yield(ledger.Operation{}, broken) }, now); !errors.Is(err, broken) {
		t.Errorf("an error of the log: %v", err)
	}
}

// ordered returns an order of the overlay a.
func ordered(at time.Time, limit string) ledger.Operation {
	return ledger.Operation{Commit: branch.Commit{At: at}, Kind: ledger.Dispatch, Overlay: "a", Decided: at, Limit: limit}
}

// chained returns a log of operations, each the parent of the one before. The last one has a parent that is missing.
func chained(all []ledger.Operation) iter.Seq2[ledger.Operation, error] {
	return func(yield func(ledger.Operation, error) bool) {
		for i, o := range all {
			o.ID, o.Parents = string(rune('A'+i)), []string{string(rune('B' + i))}
			if !yield(o, nil) {
				return
			}
		}
	}
}
