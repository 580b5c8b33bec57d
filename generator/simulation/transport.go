package simulation

import (
	"context"
	"errors"
	"slices"
	"sort"
	"time"

	"muster/generator/plan"
)

// What lies between an algorithm and the pods: when it looks, and when the cluster does
// what it has decided.

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

// Syncer is what turns commits into pods, as its people set it up.
type Syncer struct {
	// Name is what it is called.
	Name string
	// Source says where its times are from.
	Source string
	// Sync, Jitter and Told are those of [Scenario].
	Sync, Jitter, Notified time.Duration
}

// Syncers are those that are known by name.
func Syncers() []Syncer {
	return []Syncer{
		{"argocd", "Argo CD 3: timeout.reconciliation 120s and its jitter, 60s", 2 * time.Minute, time.Minute, 0},
		{"flux", "Flux: a GitRepository with interval 1m", time.Minute, 0, 0},
		{"told", "Flux's Receiver or Argo CD's webhook, by muster run --notify: docs/reference/syncers.md, and a line to the git host", time.Minute, 0, 1500 * time.Millisecond},
	}
}

// Use gives a world the syncer.
func (s Syncer) Use(w *Scenario) { w.Sync, w.Jitter, w.Notified = s.Sync, s.Jitter, s.Notified }

// gather is how long muster waits after a webhook for others that come with it:
// cmd/muster/webhooks.go.
const gather = 250 * time.Millisecond

// receiveEvent notes an event that a webhook tells. All but job.started wake muster: see
// generator/webhook.
func (r *run) receiveEvent(event string) {
	if event != "job.started" && r.triggered.IsZero() {
		r.triggered = r.buildkite.Now()
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
	next := r.triggered.Add(max(gather, r.pace.Wait(r.triggered, at)))
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

// nextSync lets the syncer look again after its time.
func (r *run) nextSync() {
	wait := r.scenario.Sync
	if r.scenario.Jitter > 0 {
		wait += time.Duration(r.sync.Int64N(int64(r.scenario.Jitter)))
	}
	r.buildkite.At(r.buildkite.Now().Add(max(wait, time.Second)), func() {
		r.synced = append(r.synced, r.buildkite.Now())
		r.apply()
		r.nextSync()
	})
}

// pushed lets what was decided take effect at once, or tells the syncer of it.
func (r *run) pushed() {
	switch {
	case r.scenario.Direct:
		r.apply()
	case r.scenario.Notified > 0: // it fetches what is there now
		pushed := slices.Clone(r.overlay.Dispatches)
		r.buildkite.At(r.buildkite.Now().Add(r.scenario.Notified), func() { r.applyUpTo(pushed) })
	}
}

// applied returns when the cluster applies the commit of a tick: at the syncer's next poll, or
// after a notification. A poll at the moment of the tick precedes it; see [Play]. False means
// never.
func (r *run) applied(tick time.Time) (time.Time, bool) {
	if r.scenario.Direct {
		return tick, true
	}
	i := sort.Search(len(r.synced), func(i int) bool { return r.synced[i].After(tick) })
	if notified := tick.Add(r.scenario.Notified); r.scenario.Notified > 0 && (i == len(r.synced) || notified.Before(r.synced[i])) {
		return notified, true
	}
	if i == len(r.synced) {
		return time.Time{}, false
	}
	return r.synced[i], true
}
