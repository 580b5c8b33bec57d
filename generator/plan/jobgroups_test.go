package plan

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestDemandOfClasses: a group of classes is as old as the oldest of them, and as
// new as the newest, which is rounded up: what is upcoming then is behind it.
func TestDemandOfClasses(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2026, 11, 21, 2, 15, s, 1, time.UTC) }
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		classes := []class{{oldest: at(10), newest: at(20)}, {}, {oldest: at(5), newest: at(30)}}
		var d Demand
		for _, i := range order {
			d.add(&classes[i])
		}
		if want := at(5).Truncate(time.Second); d.Oldest == nil || !d.Oldest.Equal(want) {
			t.Errorf("the oldest is %v, want %v", d.Oldest, want)
		}
		if want := at(31).Truncate(time.Second); d.Newest == nil || !d.Newest.Equal(want) {
			t.Errorf("the newest is %v, want %v", d.Newest, want)
		}
	}
}

// TestUnmatchedIsShort: of what anybody may write into a pipeline, so much is
// said and no more.
func TestUnmatchedIsShort(t *testing.T) {
	var classes []*class
	for jobs := range 2 * MaxUnmatched {
		long := slices.Repeat([]string{strings.Repeat("x", 119) + "é", strings.Repeat("x", 120)}, 10)
		classes = append(classes, &class{pending: jobs, rules: long, example: strings.Repeat("u", 232+jobs)})
	}
	got := queueReader{overlays: make([]Overlay, 1), tags: [][]string{nil}, clusters: []string{""}}.unmatched(classes)
	if len(got) != MaxUnmatched || got[0].Jobs != 9 {
		t.Fatalf("%d groups, the first of %d jobs", len(got), got[0].Jobs)
	}
	for _, g := range got {
		for _, words := range [][]string{g.Rules, g.Missing} {
			if len(words) != 10 || words[0] != strings.Repeat("x", 119)+"…" || words[1] != strings.Repeat("x", 120) {
				t.Errorf("%d words: %q", len(words), words[:2])
			}
		}
		if (g.Example != "") != (g.Jobs+232 <= 240) {
			t.Errorf("an example of %d bytes is %q", g.Jobs+232, g.Example)
		}
	}
}

// TestLookAheadOfClasses: upcoming jobs count that were created after any overlay
// that could serve them was last dispatched for such, if one of these looks ahead.
func TestLookAheadOfClasses(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2026, 11, 21, 2, 15, s, 0, time.UTC) }
	overlay := func(name string, lookahead float64, s int) Overlay {
		return Overlay{Name: name, Policy: Policy{Lookahead: lookahead}, State: State{LookedAhead: at(s)}}
	}
	ahead, not, other := overlay("ahead", 1, 20), overlay("not", 0, 10), overlay("other", 1, 50)
	for name, c := range map[string]struct {
		overlays []Overlay
		fresh    int
	}{
		"the latest counts":         {[]Overlay{ahead, not, other}, 2},
		"in any order":              {[]Overlay{other, not, ahead}, 2},
		"nobody looks ahead":        {[]Overlay{not, other}, 0},
		"another's dispatch counts": {[]Overlay{overlay("ahead", 1, 5), overlay("not", 0, 25)}, 2},
	} {
		var serve []int
		for i, o := range c.overlays {
			if o.Name != "other" {
				serve = append(serve, i)
			}
		}
		x := class{servers: newServers(c.overlays, serve), upcoming: 4, created: []creation{{at(10), 1}, {at(30), 1}, {at(20), 1}, {jobs: 1}}}
		x.lookAhead(c.overlays, at(0))
		if x.new != c.fresh || c.fresh > 0 && !x.newest.Equal(at(30)) {
			t.Errorf("%s: %d are new, the newest of %s", name, x.new, x.newest)
		}
	}
}

// TestClassOfEqualJobs: jobs with equal rules, in any order, have the age of the oldest and the
// first of their pages. A job that names no queue, or any, is in the class of any queue.
func TestClassOfEqualJobs(t *testing.T) {
	jobs := []Job{
		{Rules: []string{"queue=q", "os=linux"}, Since: orderedAt, URL: "b"},
		{Rules: []string{"os=linux", "queue=q"}, Since: orderedAt.Add(-time.Hour)},
		{Rules: []string{"os=linux", "queue=q", "os=linux"}, URL: "a"},
		{Rules: []string{"os=linux", "queue=q"}, Since: orderedAt.Add(-time.Minute), URL: "c"},
	}
	for i := range jobs {
		jobs[i].State = JobPending
	}
	for first := range jobs {
		all := classify(slices.Concat(jobs[first:], jobs[:first]))["q"]
		if c := all[0]; len(all) != 1 || c.pending != 4 || !c.oldest.Equal(orderedAt.Add(-time.Hour)) || c.example != "a" {
			t.Errorf("from job %d on: %d classes, the first %+v", first, len(all), c)
		}
	}
	roaming := []Job{{Rules: []string{"queue="}}, {Rules: []string{"queue=*"}}, {Rules: []string{"os=linux"}}, {}}
	if all := classify(roaming); len(all) != 1 || len(all[anyQueue]) != len(roaming) {
		t.Errorf("of any queue: %v", all)
	}
}

// TestNearest: of the overlays, the one that lacks the fewest rules is named.
func TestNearest(t *testing.T) {
	rules := []string{"queue=q", "os=linux", "gpu=a100"}
	near, far := []string{"queue=q", "os=linux"}, []string{"queue=q"}
	for _, tags := range [][][]string{{near, far}, {far, near}, {far, near, {"queue=q", "gpu=a100"}}} {
		if got := nearest(tags, rules); !slices.Equal(got, []string{"gpu=a100"}) {
			t.Errorf("%v lack %v", tags, got)
		}
	}
}
