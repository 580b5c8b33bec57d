package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"muster/generator/plan"
)

// tick lets the algorithm look and act, unless something fails.
func (r *run) tick(at time.Time) {
	r.triggered, r.pause, r.failed = time.Time{}, r.scenario.Interval, true
	blind := r.ticks.Float64() < r.scenario.BuildkiteFails
	pushFails := r.ticks.Float64() < r.scenario.PushFails && !r.scenario.Direct
	if blind {
		return
	}
	op := r.algorithm.Tick(r.view(at))
	if op.Err != nil {
		r.wait(op.Err)
		return
	}
	if pushFails {
		return
	}
	r.failed, r.missing = false, op.Missing
	r.pause = r.pauseAfter(at, op.Within)
	r.looked = append(r.looked, at)
	if op.Commits == 0 {
		return
	}
	r.commits += op.Commits
	r.overlay.Dispatches = slices.DeleteFunc(slices.Concat(r.overlay.Dispatches, op.Order), func(d plan.Dispatch) bool {
		return slices.Contains(op.Retire, d.ID)
	})
	slices.SortFunc(r.overlay.Dispatches, func(a, b plan.Dispatch) int { return cmp.Compare(a.ID, b.ID) })
	r.overlay.State = op.State
	for _, d := range op.Order {
		r.lives[d.ID] = op.Life
	}
	r.pushed()
	if r.observe != nil {
		r.observe(op)
	}
}

// pauseAfter returns the time to the next tick, unless it is woken; see trigger.adjust of generator.
func (r *run) pauseAfter(at time.Time, within time.Duration) time.Duration {
	interval := r.scenario.Interval
	spare := func(in time.Duration) time.Duration {
		if r.client == nil {
			return 0
		}
		return r.client.Spare(at.Add(in), interval)
	}
	if within > 0 && within < interval {
		return within + min(spare(within), interval-within)
	}
	extra := spare(interval)
	if r.lastCall.IsZero() || at.Sub(r.lastCall) >= time.Minute || extra > interval {
		return interval
	}
	if within > 0 {
		extra = min(extra, within-interval)
	}
	return interval + extra
}

func (r *run) view(at time.Time) View {
	v := View{
		At: at, Head: fmt.Sprintf("%08x", len(r.looked)), Overlay: r.overlay, Snapshot: r.buildkite.Snapshot,
		Poll: func(since time.Time) (plan.Snapshot, error) { return r.poll(at, since) }, Reserve: r.buildkite.Reserve,
	}
	v.Pods.Alive, v.Pods.Starting = r.pods()
	v.Pods.LastUp = 1
	if r.last.Agents > 0 {
		v.Pods.LastUp = float64(r.lastUp) / float64(r.last.Agents)
	}
	if v.Pods.Alive > r.alive {
		v.Pods.LastUp = 0 // an order is not even synced
	}
	return v
}

// pods counts what was ordered, the unsynced included.
func (r *run) pods() (alive, starting int) {
	alive, starting = r.alive, r.starting
	for _, d := range r.overlay.Dispatches {
		if !r.cluster.Created(d.ID) {
			alive += d.Agents
			starting += d.Agents
		}
	}
	return alive, starting
}

// Client reads Buildkite as the program does; [buildkite.Client] is one.
type Client interface {
	// Snapshot polls, or continues a poll. An error with the method RetryAfter says how long to
	// wait.
	Snapshot(ctx context.Context, query plan.Query) (plan.Snapshot, error)
	// Spare returns the time until a poll in addition to those of each interval can begin.
	Spare(now time.Time, interval time.Duration) time.Duration
}

// AgentToken is an agent token of the world's Buildkite cluster, for clients that ask with one.
const AgentToken = "bkct_simulated"

// gather is how long muster waits after a webhook for others that come with it:
// cmd/muster/webhooks.go.
const gather = 250 * time.Millisecond

// Events returns the events of the webhook that docs/how-to/notifications.md adds in Buildkite, which
// sends no others.
func Events() []string {
	return []string{"job.scheduled", "agent.connected", "agent.disconnected", "agent.lost", "agent.stopped"}
}

// receiveEvent triggers muster by an event for which it has a webhook; see webhook.Receiver.
func (r *run) receiveEvent(event string) {
	if r.triggered.IsZero() && slices.Contains(r.events, event) && (event == "job.scheduled" || r.missing) {
		r.triggered = r.buildkite.Now().Add(r.scenario.Delivery)
	}
}

// next returns the time of the tick after the one at a time. It runs the simulation until that time
// is known: the pause is over, or a webhook triggers muster; see generator.Wake.
func (r *run) next(at time.Time) time.Time {
	due := at.Add(r.pause)
	if r.scenario.Triggered == 0 || r.failed {
		return due
	}
	for r.triggered.IsZero() {
		event, ok := r.buildkite.Next()
		if !ok || !event.Before(due) {
			return due
		}
		r.buildkite.AdvanceTo(event)
	}
	r.lastCall = r.triggered
	next := r.triggered.Add(max(gather, r.pace.Wait(r.triggered, at), at.Add(r.scenario.Push).Sub(r.triggered)))
	if r.client != nil && next.Before(due) {
		next = next.Add(min(r.client.Spare(next, r.scenario.Interval), due.Sub(next)))
	}
	if next.Before(due) {
		r.pace.Began(next)
		return next
	}
	return due
}

// quiet reports whether nothing happens up to a time.
func (r *run) quiet(at time.Time) bool {
	event, ok := r.buildkite.Next()
	return len(r.looked) > 0 && (!ok || event.After(at))
}

// poll reads Buildkite for muster.
func (r *run) poll(at, since time.Time) (plan.Snapshot, error) {
	now := at.UTC().Truncate(time.Second)
	if r.client == nil {
		s := r.buildkite.SnapshotWithTimes(r.times, since)
		s.At = now
		return s, nil
	}
	return r.client.Snapshot(context.Background(), plan.Query{At: now, Since: since, Overlays: []plan.Overlay{r.overlay}})
}

// wait puts the next tick off as an error says.
func (r *run) wait(err error) {
	var limited plan.RetryError
	if errors.As(err, &limited) {
		r.pause = max(r.pause, limited.RetryAfter())
	}
}

// WebhookInterval is the mean time between ticks that webhooks begin: muster run --webhook-interval.
const WebhookInterval = 3 * time.Second
