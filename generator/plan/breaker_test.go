package plan

import (
	"testing"
	"time"
)

func TestProbesComeAtGrowingIntervals(t *testing.T) {
	at := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	for failures, want := range map[int]time.Duration{3: time.Minute, 4: 2 * time.Minute, 5: 4 * time.Minute, 7: 16 * time.Minute, 8: 30 * time.Minute, 9: 30 * time.Minute, 1000: 30 * time.Minute} {
		if got := (Breaker{Failures: failures, At: at}).NextProbe().Sub(at); got != want {
			t.Errorf("after %d failures the next probe comes after %v, want %v", failures, got, want)
		}
	}
}

func TestBreakerAfter(t *testing.T) {
	t0 := time.Date(2026, 11, 21, 2, 0, 0, 0, time.UTC)
	now := t0.Add(time.Hour)
	order := func(minute int, failure Failure) outcome {
		return outcome{dispatch: Dispatch{ID: "d", At: t0.Add(time.Duration(minute) * time.Minute)}, failure: failure, success: failure == ""}
	}
	for _, c := range []struct {
		name    string
		before  int
		retired []outcome
		want    int
	}{
		{"nothing retired", 2, nil, 2},
		{"dispatches of one moment are one order", 0, []outcome{order(1, NeverRegistered), order(1, NeverRegistered), order(1, NeverRegistered)}, 1},
		{"three orders", 0, []outcome{order(3, NeverRegistered), order(1, NoJobTaken), order(2, NeverRegistered)}, 3},
		{"one of an order is enough", 2, []outcome{order(1, NeverRegistered), order(1, "")}, 0},
		{"wrong tags count beside a success", 0, []outcome{order(1, ""), order(1, WrongTags)}, 3},
		{"the later order counts", 2, []outcome{order(2, NeverRegistered), order(1, "")}, 1},
		{"a success ends it", 5, []outcome{order(1, NeverRegistered), order(2, "")}, 0},
	} {
		b := Breaker{Failures: c.before, At: t0}
		if c.before == 0 {
			b = Breaker{}
		}
		if got := b.after(c.retired, now); got.Failures != c.want {
			t.Errorf("%s: %d failures, want %d", c.name, got.Failures, c.want)
		}
	}
}
