package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// blind is a queue whose agents nobody lists, as it is looked at every 15 seconds.
type blind struct {
	inference Inference
	register  Registrations
	overlay   Overlay
	at        time.Time
	runs      []Run
	jobs      []Job
}

func newBlind(dispatches ...Dispatch) *blind {
	return &blind{at: monday(10), overlay: Overlay{Name: "a", Policy: Policy{
		Queue: "default", Max: 20, Lease: 15 * time.Minute, IdleTimeout: 5 * time.Minute, WarmIdleTimeout: time.Hour,
	}, Dispatches: dispatches}}
}

func monday(hour int) time.Time { return time.Date(2026, time.January, 5, hour, 0, 0, 0, time.UTC) }

// orderOf is a dispatch of so many agents, so many minutes after ten.
func orderOf(id string, agents, minute int) Dispatch {
	at := monday(10).Add(time.Duration(minute) * time.Minute)
	return Dispatch{
		ID: id, Purpose: ForDemand, Agents: agents, At: at, NotAfter: at.Add(15 * time.Minute), IdleTimeout: 5 * time.Minute,
		Tags: []string{"queue=default", "overlay=a"},
	}
}

// run has jobs be taken, or end.
func (b *blind) run(running bool, ids ...string) {
	for _, id := range ids {
		b.runs = append(b.runs, Run{ID: id, Queue: "default", Cluster: "ci", Running: running})
	}
}

// poll returns what muster infers from N agents, M of them idle: agents in flight, and
// the overlay's own as they are counted; and what cannot be known.
func (b *blind) poll(after time.Duration, agents, idle int) (string, string) {
	b.at = b.at.Add(after)
	s := b.inference.Infer([]Overlay{b.overlay}, Snapshot{
		At: b.at, Jobs: b.jobs, Queues: []Queue{{Cluster: "ci", ClusterName: "ci", Key: "default"}},
		Counted: &Counted{At: b.at, Queues: []CountedQueue{{Queue: "default", Cluster: "ci", Agents: agents, Idle: idle}}, Runs: b.runs},
	})
	still := b.runs[:0]
	for _, r := range b.runs {
		if r.Running {
			still = append(still, r)
		}
	}
	b.runs = still
	b.register.Note(s)
	b.register.Reconcile([]Overlay{b.overlay}, s.At)
	for _, o := range Observe([]Overlay{b.overlay}, s, &b.register) {
		for _, d := range Decide("tip", []Overlay{b.overlay}, o) {
			return fmt.Sprintf("%d in flight, %d idle, %d busy, %d stopping", d.Figures.InFlight, d.Figures.Idle, d.Figures.Busy, d.Figures.Stopping), s.Unread
		}
	}
	return "", s.Unread
}

func (b *blind) want(t *testing.T, after time.Duration, agents, idle int, want string) {
	t.Helper()
	if got, _ := b.poll(after, agents, idle); got != want {
		t.Errorf("%s after ten: %s, want %s", b.at.Sub(monday(10)), got, want)
	}
}

// end has a job that ran end.
func (b *blind) end(id string) {
	for i := range b.runs {
		if b.runs[i].ID == id {
			b.runs[i].Running = false
		}
	}
}

// TestInferred: jobs that were taken and agents that are idle are agents of the oldest
// dispatches, and what has not come is in flight until its lease is over.
func TestInferred(t *testing.T) {
	b := newBlind(orderOf("a-1", 2, 0), orderOf("a-2", 3, 1))
	b.want(t, 2*time.Minute, 0, 0, "5 in flight, 0 idle, 0 busy, 0 stopping")
	b.run(true, "x")
	b.want(t, 15*time.Second, 1, 0, "4 in flight, 0 idle, 1 busy, 0 stopping")
	b.run(true, "y")
	b.want(t, 15*time.Second, 3, 1, "2 in flight, 1 idle, 2 busy, 0 stopping")
	b.end("x")
	b.want(t, time.Minute, 2, 1, "2 in flight, 1 idle, 1 busy, 0 stopping")
	b.run(false, "z") // taken and over between two looks, by the one that was idle
	b.want(t, 15*time.Second, 1, 0, "2 in flight, 0 idle, 1 busy, 0 stopping")
	b.run(false, "v") // by one that was not there before
	b.want(t, 15*time.Second, 1, 0, "1 in flight, 0 idle, 1 busy, 0 stopping")
	b.want(t, 16*time.Minute, 1, 0, "0 in flight, 0 idle, 1 busy, 0 stopping")
}

// TestInferredLingering: an agent that is still connected after its job is no agent that came.
func TestInferredLingering(t *testing.T) {
	b := newBlind(orderOf("a-1", 3, 0))
	b.want(t, time.Minute, 0, 0, "3 in flight, 0 idle, 0 busy, 0 stopping")
	b.run(true, "x")
	b.want(t, 15*time.Second, 1, 0, "2 in flight, 0 idle, 1 busy, 0 stopping")
	b.end("x")
	b.want(t, time.Minute, 1, 1, "2 in flight, 0 idle, 0 busy, 1 stopping")
	b.want(t, time.Minute, 1, 1, "2 in flight, 0 idle, 0 busy, 1 stopping")
}

// TestInferredAnew: a process that begins knows of no agent whose it is: all that is in
// git is in flight, and who is there counts against max and may take the jobs that come.
func TestInferredAnew(t *testing.T) {
	b := newBlind(orderOf("a-1", 3, 0))
	b.want(t, 2*time.Minute, 4, 1, "3 in flight, 1 idle, 3 busy, 0 stopping")
	b.run(true, "x")
	b.want(t, 15*time.Second, 4, 0, "3 in flight, 0 idle, 4 busy, 0 stopping")
	b.run(true, "y") // nobody was idle
	b.want(t, 15*time.Second, 5, 0, "2 in flight, 0 idle, 5 busy, 0 stopping")
}

// TestInferredStrangers: a queue with agents that muster did not order is told, and then
// what was ordered counts as in flight.
func TestInferredStrangers(t *testing.T) {
	b := newBlind()
	b.poll(time.Minute, 0, 0)
	b.run(true, "x")
	if _, unread := b.poll(15*time.Second, 1, 0); !strings.Contains(unread, "queue default has agents that muster did not order") {
		t.Errorf("%q", unread)
	}
	b.overlay.Dispatches = []Dispatch{orderOf("a-1", 2, 1)}
	b.run(true, "y")
	b.want(t, time.Minute, 2, 0, "2 in flight, 0 idle, 2 busy, 0 stopping")
	if got, unread := b.poll(15*time.Minute-30*time.Second, 2, 0); unread != "" || !strings.HasPrefix(got, "1 in flight") {
		t.Errorf("%s, %q", got, unread)
	}
}

// TestInferredReuse: an agent that stays is there again after its job.
func TestInferredReuse(t *testing.T) {
	d := orderOf("a-1", 2, 0)
	d.Uptime = 30 * time.Minute
	b := newBlind(d)
	b.want(t, time.Minute, 0, 0, "2 in flight, 0 idle, 0 busy, 0 stopping")
	b.run(true, "x")
	b.want(t, 15*time.Second, 1, 0, "1 in flight, 0 idle, 1 busy, 0 stopping")
	b.end("x")
	b.run(true, "y") // at once
	b.want(t, time.Minute, 1, 0, "1 in flight, 0 idle, 1 busy, 0 stopping")
	b.end("y")
	b.want(t, time.Minute, 1, 1, "1 in flight, 1 idle, 0 busy, 0 stopping")
}

// TestInferredBack: a job that was given back was taken by an agent all the same; who takes
// it then is another one.
func TestInferredBack(t *testing.T) {
	b := newBlind(orderOf("a-1", 3, 0))
	b.poll(time.Minute, 0, 0)
	b.run(true, "x")
	b.want(t, 15*time.Second, 1, 0, "2 in flight, 0 idle, 1 busy, 0 stopping")
	b.runs, b.jobs = nil, []Job{{ID: "x", Cluster: "ci", Rules: []string{"queue=default"}, State: JobPending, Since: b.at}}
	b.want(t, time.Minute, 0, 0, "2 in flight, 0 idle, 0 busy, 0 stopping")
	b.jobs = nil
	b.run(true, "x")
	b.want(t, 15*time.Second, 1, 0, "1 in flight, 0 idle, 1 busy, 0 stopping")
}

// TestInferredRetired: agents of a dispatch that another muster has ordered and retired
// between two looks are not taken for others'.
func TestInferredRetired(t *testing.T) {
	b := newBlind(orderOf("a-1", 2, 0))
	b.poll(time.Minute, 0, 0)
	b.inference.Retired("a", orderOf("a-2", 1, 0))
	b.run(true, "x", "y")
	b.want(t, 15*time.Second, 2, 0, "0 in flight, 0 idle, 2 busy, 0 stopping")
	b = newBlind(orderOf("a-3", 2, 1))
	b.poll(90*time.Second, 0, 0)
	b.inference.Retired("a", orderOf("a-2", 1, 0))
	b.run(true, "x")
	b.want(t, 15*time.Second, 1, 0, "2 in flight, 0 idle, 1 busy, 0 stopping")
}

// TestSharing: overlays of one queue share it, but in clusters of which each names another.
func TestSharing(t *testing.T) {
	of := func(name, queue, cluster string) Overlay {
		return Overlay{Name: name, Policy: Policy{Queue: queue, Cluster: cluster}}
	}
	got := Sharing([]Overlay{of("a", "q", ""), of("b", "q", "ci"), of("c", "r", "ci"), of("d", "r", "gpu"), of("e", "s", "")})
	if fmt.Sprint(got) != "map[a:b b:a]" {
		t.Error(got)
	}
}

// TestInferredContradiction: counts that contradict each other, or the jobs that run, change nothing
// for five minutes. Then as many agents as they can mean are presumed.
func TestInferredContradiction(t *testing.T) {
	jobs := []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}
	const good = "3 in flight, 10 idle, 10 busy, 0 stopping"
	for _, c := range []struct {
		agents, idle int
		then         string // after five minutes
	}{
		{0, 0, "3 in flight, 0 idle, 10 busy, 0 stopping"},
		{5, 0, "3 in flight, 0 idle, 10 busy, 0 stopping"},
		{5, 5, "3 in flight, 5 idle, 10 busy, 0 stopping"},
		{20, 20, "3 in flight, 20 idle, 10 busy, 0 stopping"},
		{10, 25, "3 in flight, 25 idle, 10 busy, 0 stopping"},
		{-1, 0, "3 in flight, 0 idle, 10 busy, 0 stopping"},
		{20, -5, ""},
		{1 << 40, 0, ""},
	} {
		b := newBlind(orderOf("a-1", 23, 0))
		b.poll(time.Minute, 0, 0)
		b.run(true, jobs...)
		b.want(t, 15*time.Second, 20, 10, good)
		b.want(t, time.Minute, 20, 10, good)
		for after := time.Duration(0); after < doubtFor; after += 15 * time.Second {
			got, unread := b.poll(15*time.Second, c.agents, c.idle)
			if told := strings.Contains(unread, "metrics of queue default contradict each other"); got != good || told != (after >= doubtShown) {
				t.Fatalf("%d agents, %d idle, for %s: %s, %q", c.agents, c.idle, after, got, unread)
			}
		}
		if got, unread := b.poll(15*time.Second, c.agents, c.idle); got != c.then && c.then != "" || unread == "" {
			t.Errorf("%d agents, %d idle, after five minutes: %s, want %s; %q", c.agents, c.idle, got, c.then, unread)
		}
		if _, unread := b.poll(15*time.Second, 20, 10); strings.Contains(unread, "contradict") {
			t.Errorf("%d agents, %d idle, and good counts again: %q", c.agents, c.idle, unread)
		}
	}
}

// TestJobsBeforeTheFirstCounts: jobs that are taken before the first valid counts do not show that agents
// in flight have registered.
func TestJobsBeforeTheFirstCounts(t *testing.T) {
	b := newBlind(orderOf("a-1", 5, 0))
	b.poll(time.Minute, 5, 6)
	b.run(true, "x", "y")
	b.run(false, "z")
	b.poll(15*time.Second, 5, 6)
	b.want(t, 15*time.Second, 5, 3, "5 in flight, 3 idle, 2 busy, 0 stopping")
	b.run(true, "v") // by one that was idle
	b.want(t, 15*time.Second, 5, 2, "5 in flight, 2 idle, 3 busy, 0 stopping")
	b.run(true, "1", "2", "3") // one more than were idle
	b.want(t, 15*time.Second, 6, 0, "4 in flight, 0 idle, 6 busy, 0 stopping")
}

// TestContradictionAtFirst: without earlier counts, ones that contradict each other decide nothing for
// five minutes. The counts of jobs say as much as known jobs.
func TestContradictionAtFirst(t *testing.T) {
	o := Overlay{Name: "a", Policy: Policy{Queue: "large", Max: 20, Lease: 15 * time.Minute}}
	var f Inference
	for _, c := range []struct {
		after time.Duration
		q     CountedQueue
		want  bool
	}{
		{0, CountedQueue{Agents: 5, Running: 10}, true},
		{time.Minute, CountedQueue{Agents: 10, Idle: 1, Running: 10}, true},
		{4 * time.Minute, CountedQueue{Agents: 10, Idle: 1, Invalid: true}, true},
		{5 * time.Minute, CountedQueue{Agents: 5, Running: 10}, false},
	} {
		at := monday(10).Add(c.after)
		c.q.Queue, c.q.Cluster = "large", "ci"
		s := f.Infer([]Overlay{o}, Snapshot{At: at, Queues: []Queue{{Cluster: "ci", ClusterName: "ci", Key: "large"}}, Counted: &Counted{At: at, Queues: []CountedQueue{c.q}}})
		if (s.Contradiction != "") != c.want || !c.want && len(s.Agents) != 10 {
			t.Errorf("after %s: %q, %d agents", c.after, s.Contradiction, len(s.Agents))
		}
	}
}
