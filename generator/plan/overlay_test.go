package plan

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestSlug: a name that fits is its own slug; any other ends in six digits of its hash
// and has at most 40 characters.
func TestSlug(t *testing.T) {
	x := strings.Repeat("x", 50)
	for name, want := range map[string]string{ // # stands for the digits
		"default": "default", "a-z-0-9": "a-z-0-9", x[:40]: x[:40], x[:41]: x[:33] + "-#", "linux/large": "linux-large-#",
		"A": "a-#", "Z": "z-#", "-a-": "a-#", "a`b{c/d:e@f[g": "a-b-c-d-e-f-g-#", "Größe": "gr--e-#", "ä": "#", "/": "#",
		"X" + x[:32]: x[:33] + "-#", "X" + x[:33]: x[:33] + "-#", x[:32] + "/y" + x[:20]: x[:32] + "-#",
	} {
		got := Slug(name)
		if !regexp.MustCompile("^"+strings.ReplaceAll(want, "#", "[0-9a-f]{6}")+"$").MatchString(got) || len(got) > 40 {
			t.Errorf("%s: %s (%d), want %s", name, got, len(got), want)
		}
	}
	if Slug("A") == Slug("a-") || Slug("a/b") == Slug("a.b") {
		t.Error("two names share a slug")
	}
}

// TestTagsOfAgents: what an agent's tags say of whose it is, and of how long it waits.
func TestTagsOfAgents(t *testing.T) {
	o := Overlay{Name: "a", Dispatches: []Dispatch{{ID: "a-1"}}}
	for tags, want := range map[string]bool{"dispatch=a-1": true, "dispatch=a-2": false, "dispatch=a-1,queue=q": false, "index=1": false, "": false} {
		if got := o.ordered(strings.Split(tags, ",")); got != want {
			t.Errorf("%q: ordered %t", tags, got)
		}
	}
	if (&Overlay{Dispatches: []Dispatch{{}}}).ordered([]string{"index=1"}) {
		t.Error("an agent of no dispatch is of one without a name")
	}
	for tags, want := range map[string]time.Duration{
		"muster-warm=60": time.Minute, "muster-warm=0": 0, "muster-warm=-5": 0, "muster-warm=x": 0, "muster-warm=99999999999999999999": 0, "muster-warm=": 0,
		"dispatch=a-1": 0, "": 0,
	} {
		got, warm := secondsIn(strings.Split(tags, ","), TagWarm)
		if warm != (want > 0) || warm && got != want {
			t.Errorf("%q: %s, of the warm pool: %t", tags, got, warm)
		}
	}
	if v, ok := TagValue([]string{"=v", "o=v"}, "os"); ok {
		t.Errorf("a tag without a key is that of any: %q", v)
	}
	for _, c := range []struct {
		agent, cluster string
		same           bool
	}{{"", "", true}, {"", "x", true}, {"x", "", true}, {"x", "x", true}, {"x", "y", false}} {
		if got := sameCluster(c.agent, c.cluster); got != c.same {
			t.Errorf("%q, %q: %t", c.agent, c.cluster, got)
		}
	}
}

// TestUnknownQueue: a queue is unknown when no cluster, no agent and no job outside
// the clusters has it.
func TestUnknownQueue(t *testing.T) {
	others := []Queue{{Key: "other"}}
	for name, c := range map[string]struct {
		s    Snapshot
		want bool
	}{
		"no clusters":            {Snapshot{}, false},
		"unknown":                {Snapshot{Queues: others, Agents: []Agent{{Tags: []string{"queue=other"}}}, Jobs: []Job{{Rules: []string{"queue=other"}}}}, true},
		"a cluster's":            {Snapshot{Queues: append(others, Queue{Key: "q"})}, false},
		"an agent's":             {Snapshot{Queues: others, Agents: []Agent{{Tags: []string{"queue=q"}}}}, false},
		"a job's":                {Snapshot{Queues: others, Jobs: []Job{{Rules: []string{"queue=q"}}}}, false},
		"a wish":                 {Snapshot{Queues: others, Jobs: []Job{{Cluster: "c", Rules: []string{"queue=q"}}}}, true},
		"a wish, and an agent's": {Snapshot{Queues: others, Agents: []Agent{{Cluster: "c", Tags: []string{"queue=q"}}}, Jobs: []Job{{Cluster: "c", Rules: []string{"queue=q"}}}}, false},
	} {
		if got := Unknown([]string{"q"}, c.s); got["q"] != c.want || len(got) > 1 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestWithdrawable: a dispatch has a third of its lease to become a Job, and five
// minutes at most.
func TestWithdrawable(t *testing.T) {
	for lease, want := range map[time.Duration]time.Duration{time.Minute: 20 * time.Second, 15 * time.Minute: 5 * time.Minute, time.Hour: 5 * time.Minute} {
		d := Dispatch{At: orderedAt, NotAfter: orderedAt.Add(lease)}
		if d.Withdrawable(orderedAt.Add(want-time.Second)) || !d.Withdrawable(orderedAt.Add(want)) {
			t.Errorf("a lease of %s: not from %s on", lease, want)
		}
	}
}
