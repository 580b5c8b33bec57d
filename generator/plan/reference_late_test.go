package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// drawStartupTimes gives some overlays `lease: auto` and start-up times.
func drawStartupTimes(t *rapid.T, o *Overlay, now time.Time) {
	if rapid.IntRange(0, 2).Draw(t, "lease: auto") > 0 {
		return
	}
	o.Policy.LeaseAuto = true
	known := rapid.SampledFrom([]string{"30:20", "46:20", "60:100 113:10", "215:40", "312:25", "30:19", ""}).Draw(t, "boots")
	if err := o.State.StartupTimes.UnmarshalText([]byte(known)); err != nil {
		t.Fatal(err)
	}
	if ago := rapid.SampledFrom([]int{0, 1, 10, 16, 60}).Draw(t, "served"); ago > 0 {
		o.State.ServedAt = now.Add(-time.Duration(ago) * time.Minute)
	}
}

// orderOf is how many of an order have been seen, and of how many; over reports that nothing of
// it is awaited any more.
func (r *reference) orderOf(o *refOverlay, at time.Time) (came, agents int, over bool) {
	over = true
	for _, d := range o.Dispatches {
		if !d.At.Equal(at) {
			continue
		}
		seen := len(r.indexes(d))
		came, agents = came+seen, agents+d.Agents
		over = over && (seen == d.Agents || r.snapshot.At.After(d.NotAfter.Add(2*time.Minute)))
	}
	return came, agents, over
}

// indexes are those of a dispatch that were seen, and how long after the order they came;
// negative where that is not told.
func (r *reference) indexes(d Dispatch) map[int]time.Duration {
	all := map[int]time.Duration{}
	for index := range d.Agents {
		for _, a := range r.snapshot.Agents {
			if !slices.Contains(a.Tags, "dispatch="+d.ID) || !slices.Contains(a.Tags, fmt.Sprint("index=", index)) {
				continue
			}
			took, known := all[index]
			switch {
			case a.Connected.IsZero() && !known:
				all[index] = -1
			case !a.Connected.IsZero() && (!known || took < 0 || a.Connected.Sub(d.At) < took):
				all[index] = max(0, a.Connected.Sub(d.At))
			}
		}
	}
	return all
}

// startupTimes are the seconds that agents took: those that the state remembers, and of each
// dispatch that leaves git now "those of its agents that registered", by the histogram's
// bounds, each "a tenth above the one before or a second".
func (r *reference) startupTimes(o *refOverlay) (seconds []int) {
	for _, part := range strings.Fields(o.State.StartupTimes.String()) {
		var took, agents int
		fmt.Sscanf(part, "%d:%d", &took, &agents)
		seconds = append(seconds, slices.Repeat([]int{took}, agents)...)
	}
	for _, d := range o.Dispatches {
		if _, _, over := r.orderOf(o, d.At); !over || o.Suspended.Active() {
			continue
		}
		for _, took := range r.indexes(d) {
			bound := 1
			for time.Duration(bound)*time.Second < took {
				bound += max(1, bound/10)
			}
			if took >= 0 {
				seconds = append(seconds, bound)
			}
		}
	}
	slices.Sort(seconds)
	return seconds
}

// overdue is how many of each dispatch are `late`: "An index is overdue from twice the 99th
// percentile after its order on, and a minute at least." "Half of an order's overdue agents
// (rounded up) do not count, and all of them from three times the percentile on".
func (r *reference) overdue(o *refOverlay) map[string]int {
	all, boots := map[string]int{}, r.startupTimes(o)
	if !o.Policy.LeaseAuto || len(boots) < 20 {
		return all
	}
	after := max(time.Minute, 2*time.Second*time.Duration(boots[(99*len(boots)+99)/100-1]))
	orders := slices.Clone(o.Dispatches)
	slices.SortStableFunc(orders, func(a, b Dispatch) int { return a.At.Compare(b.At) })
	one := 1
	for i, d := range orders {
		if i > 0 && orders[i-1].At.Equal(d.At) {
			continue
		}
		missing := func(d Dispatch) int {
			if !d.At.Equal(orders[i].At) || d.Cluster != o.Policy.Cluster || r.snapshot.At.After(d.NotAfter.Add(2*time.Minute)) {
				return 0
			}
			return d.Agents - len(r.indexes(d))
		}
		n := 0
		for _, x := range orders {
			n += missing(x)
		}
		switch age := r.snapshot.At.Sub(d.At); {
		case age < after:
			n = 0
		case 2*age < 3*after:
			n = (n + 1) / 2
		}
		// "only where an equally old or newer order has registered by half"
		served := !o.State.ServedAt.Before(d.At) || slices.ContainsFunc(orders, func(x Dispatch) bool {
			came, agents, _ := r.orderOf(o, x.At)
			return !x.At.Before(d.At) && 2*came >= agents
		})
		if !served { // "Beyond those, one agent of an overlay at a time is `late`"
			n = min(n, one)
			one -= n
		}
		for _, x := range orders {
			take := min(n, missing(x))
			all[x.ID] += take
			n -= take
		}
	}
	return all
}
