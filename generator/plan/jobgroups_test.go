package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestClasses counts each group of jobs again, one job at a time: jobs are
// alike whose cluster is one and whose rules are the same, in any order.
func TestClasses(t *testing.T) {
	now := time.Date(2026, 11, 21, 2, 15, 0, 0, time.UTC)
	rules := rapid.SampledFrom([][]string{
		{"queue=default", "os=linux"}, {"os=linux", "queue=default"}, {"os=linux", "queue=default", "os=linux"},
		{"queue=default"}, {"queue=", "gpu=a100"}, {"gpu=a100", "queue=*"}, {"gpu=a100", "queue=", "queue=default"}, {"os=linux"}, nil,
	})
	rapid.Check(t, func(t *rapid.T) {
		jobs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Job {
			since := rapid.SampledFrom([]time.Time{{}, now, now.Add(-time.Minute), now.Add(-time.Hour)})
			return Job{
				Cluster: rapid.SampledFrom([]string{"", "c1"}).Draw(t, "cluster"),
				Rules:   rules.Draw(t, "rules"),
				State:   rapid.SampledFrom([]JobState{JobPending, JobPending, JobUpcoming, JobLimited, JobBlocked}).Draw(t, "state"),
				Since:   since.Draw(t, "since"), Created: since.Draw(t, "created"),
				URL: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "URL"),
			}
		}), 1, 20).Draw(t, "jobs")
		var got []string
		for key, classes := range classify(jobs) {
			for _, c := range classes {
				var created []time.Time
				for _, x := range c.created {
					created = append(created, slices.Repeat([]time.Time{x.at}, x.jobs)...)
				}
				slices.SortFunc(created, time.Time.Compare)
				got = append(got, fmt.Sprintln(key, c.cluster, c.rules, c.pending, c.upcoming, c.limited, c.blocked, c.oldest.Unix(), c.example, created))
			}
		}
		slices.Sort(got)
		if want := countClasses(jobs); !slices.Equal(got, want) {
			t.Fatalf("%v\ngot\n%s\nwant\n%s", jobs, strings.Join(got, ""), strings.Join(want, ""))
		}
	})
}

func countClasses(jobs []Job) []string {
	groups := map[string][]Job{}
	for _, j := range jobs {
		sorted := slices.Compact(slices.Sorted(slices.Values(j.Rules)))
		key := "" // the first of the rules in order that names a queue
		for _, r := range sorted {
			if value, ok := strings.CutPrefix(r, "queue="); ok {
				key = value
				break
			}
		}
		id := fmt.Sprintln(cmp.Or(key, "*"), j.Cluster, sorted)
		groups[id] = append(groups[id], j)
	}
	var all []string
	for id, group := range groups {
		count := map[JobState]int{}
		var since, created []time.Time
		var examples []string
		for _, j := range group {
			count[j.State]++
			switch j.State {
			case JobPending:
				if !j.Since.IsZero() {
					since = append(since, j.Since)
				}
				if j.URL != "" {
					examples = append(examples, j.URL)
				}
			case JobUpcoming:
				created = append(created, j.Created)
			}
		}
		var oldest time.Time
		if len(since) > 0 {
			oldest = slices.MinFunc(since, time.Time.Compare)
		}
		example := ""
		if len(examples) > 0 {
			example = slices.Min(examples)
		}
		slices.SortFunc(created, time.Time.Compare)
		all = append(all, fmt.Sprintln(strings.TrimSuffix(id, "\n"), count[JobPending], count[JobUpcoming], count[JobLimited], count[JobBlocked], oldest.Unix(), example, created))
	}
	slices.Sort(all)
	return all
}

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
		x := class{overlays: []string{"ahead", "not"}, created: []creation{{at(10), 1}, {at(30), 1}, {at(20), 1}, {jobs: 1}}}
		x.lookAhead(c.overlays, at(0))
		if x.fresh != c.fresh || c.fresh > 0 && !x.newest.Equal(at(30)) {
			t.Errorf("%s: %d are new, the newest of %s", name, x.fresh, x.newest)
		}
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

// TestUnmatchedIsShort: of what anybody may write into a pipeline, so much is
// said and no more.
func TestUnmatchedIsShort(t *testing.T) {
	var groups []Unmatched
	for jobs := range 2 * MaxUnmatched {
		long := slices.Repeat([]string{strings.Repeat("x", 119) + "é", strings.Repeat("x", 120)}, 10)
		groups = append(groups, Unmatched{Jobs: jobs, Rules: long, Missing: long, Example: strings.Repeat("u", 232+jobs)})
	}
	got := largest(groups)
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
