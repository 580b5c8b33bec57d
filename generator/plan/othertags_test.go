package plan

import (
	"testing"
	"time"
)

// TestInFlightTags: agents in flight count with the tags that their dispatch was given,
// whatever the policy says by now: as they will once they register.
func TestInFlightTags(t *testing.T) {
	plain, gpu := []string{"queue=q", "overlay=a"}, []string{"queue=q", "gpu=a100", "overlay=a"}
	wants := func(more ...string) []string { return append([]string{"queue=q"}, more...) }
	for name, c := range map[string]struct {
		told    []string // of 3 agents in flight
		tags    []string // of the policy now
		change  func(*Overlay)
		rules   []string // of 3 pending jobs
		want    int      // dispatched
		other   int      // by an overlay with gpu=a100, if there is one
		another bool
	}{
		"the tags of the policy":             {gpu, []string{"gpu=a100"}, nil, wants("gpu=a100"), 0, 0, false},
		"not told":                           {nil, []string{"gpu=a100"}, nil, wants("gpu=a100"), 0, 0, false},
		"a tag was added, and jobs want it":  {plain, []string{"gpu=a100"}, nil, wants("gpu=a100"), 3, 0, false},
		"a tag was added, and jobs do not":   {plain, []string{"gpu=a100"}, nil, wants(), 0, 0, false},
		"a tag was changed":                  {gpu, []string{"gpu=h100"}, nil, wants("gpu=h100"), 3, 0, false},
		"a tag was changed, any will do":     {gpu, []string{"gpu=h100"}, nil, wants("gpu=*"), 0, 0, false},
		"a tag was removed":                  {gpu, nil, nil, wants(), 0, 0, false},
		"a tag was removed, another has it":  {gpu, nil, nil, wants("gpu=a100"), 0, 0, true},
		"not of it, and another has the tag": {plain, nil, nil, wants("gpu=a100"), 0, 3, true},
		"the buffer wants the new tag":       {plain, []string{"gpu=a100"}, func(o *Overlay) { o.Policy.Buffer = 2 }, nil, 2, 0, false},
		"the buffer wants one tag less":      {gpu, nil, func(o *Overlay) { o.Policy.Buffer = 2 }, nil, 0, 0, false},
		"min counts them":                    {plain, []string{"gpu=a100"}, func(o *Overlay) { o.Policy.Min = 3 }, nil, 0, 0, false},
		"max counts them":                    {plain, []string{"gpu=a100"}, func(o *Overlay) { o.Policy.Max = 4 }, wants("gpu=a100"), 1, 0, false},
		"their lease is over":                {plain, []string{"gpu=a100"}, func(o *Overlay) { o.Dispatches[0].NotAfter = orderedAt.Add(-Grace - time.Second) }, wants(), 3, 0, false},
		"renamed":                            {[]string{"queue=q", "overlay=was"}, nil, func(o *Overlay) { o.Former = []string{"was"} }, wants(), 0, 0, false},
	} {
		o := Overlay{Name: "a", Policy: Policy{Queue: "q", Tags: c.tags, Max: 10, Lease: lease, IdleTimeout: 5 * time.Minute, WarmIdleTimeout: time.Hour}}
		o.Dispatches = []Dispatch{{ID: "a-0000000a", Agents: 3, At: orderedAt.Add(-time.Minute), NotAfter: orderedAt.Add(lease), Tags: c.told, Purpose: ForDemand}}
		if c.change != nil {
			c.change(&o)
		}
		overlays := []Overlay{o}
		if c.another {
			b := Overlay{Name: "b", Policy: o.Policy}
			b.Policy.Tags = []string{"gpu=a100"}
			overlays = append(overlays, b)
		}
		s := Snapshot{At: orderedAt}
		for range 3 {
			if c.rules != nil {
				s.Jobs = append(s.Jobs, Job{Rules: c.rules, State: JobPending, Since: orderedAt})
			}
		}
		d := Decide("c0ffee", overlays, Observe(overlays, s, &Registrations{})[0])
		if d[0].Sum.Dispatch != c.want || c.another && d[1].Sum.Dispatch != c.other {
			t.Errorf("%s: dispatched %+v, want %d and %d", name, d, c.want, c.other)
		}
		for _, x := range d {
			for _, wrong := range againstFormula(t, x, "") {
				t.Errorf("%s: %s: %s", name, x.Overlay, wrong)
			}
		}
		if got, want := d[0].Sum.InFlight, 3; got != want && !o.Dispatches[0].Expired(orderedAt) {
			t.Errorf("%s: %d in flight, want %d", name, got, want)
		}
	}
}

// TestInFlightTagsOfAnyQueue: the same for jobs of any queue.
func TestInFlightTagsOfAnyQueue(t *testing.T) {
	a := ofQueue("a", func(o *Overlay) {
		o.Policy.Max, o.Policy.Tags = 3, []string{"gpu=a100"}
		o.Dispatches = []Dispatch{{ID: "a-0000000a", Agents: 3, At: orderedAt.Add(-time.Minute), NotAfter: orderedAt.Add(lease), Tags: []string{"queue=a", "overlay=a"}, Purpose: ForDemand}}
	})
	b := ofQueue("b", func(o *Overlay) { o.Policy.Tags = a.Policy.Tags })
	for rule, want := range map[string][2]string{"gpu=a100": {"a 0/0 (2)", "b 2/2 (0)"}, "queue=*": {"a 2/0 (0)", "b 0/0 (2)"}} {
		if got := sums([]Overlay{a, b}, Snapshot{At: orderedAt, Jobs: roaming(2, rule)}); [2]string(got) != want {
			t.Errorf("%s: %q, want %q", rule, got, want)
		}
	}
}

// TestOtherTagsAreNoted: only where it makes a difference does an observation say what
// a dispatch was told.
func TestOtherTagsAreNoted(t *testing.T) {
	o := Overlay{Name: "a", Fleet: "f", Policy: Policy{Queue: "q", Max: 10}}
	for name, c := range map[string]struct {
		told []string
		want bool
	}{
		"the same": {o.AgentTags(), false}, "before fleets had a tag": {[]string{"queue=q", "overlay=a"}, false}, "more": {append(o.AgentTags(), "os=linux"), false},
		"another queue, which is counted apart": {[]string{"queue=x", "overlay=a"}, false},
	} {
		o.Dispatches = []Dispatch{{ID: "a-0000000a", Agents: 3, At: orderedAt, NotAfter: orderedAt.Add(lease), Tags: c.told}}
		s := Snapshot{At: orderedAt, Jobs: []Job{{Rules: []string{"queue=q"}, State: JobPending, Since: orderedAt}}}
		if got := Observe([]Overlay{o}, s, &Registrations{})[0].Overlays[0].OtherTags; len(got) > 0 != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
