package simulation

import (
	"slices"
	"sort"
	"time"

	"muster/generator/plan"
)

// Syncer is what turns commits into pods, as its people set it up.
type Syncer struct {
	// Name is what it is called.
	Name string
	// Source says where its times are from.
	Source string
	// Sync, Jitter, Notified and Triggered are those of [Scenario].
	Sync, Jitter, Notified, Triggered time.Duration
}

// Syncers are those that are known by name.
func Syncers() []Syncer {
	return []Syncer{
		{"argocd", "Argo CD 3: timeout.reconciliation 120s and its jitter, 60s", 2 * time.Minute, time.Minute, 0, 0},
		{"flux", "Flux: a GitRepository with interval 1m", time.Minute, 0, 0, 0},
		{"notified", "muster run --notify and a webhook of Buildkite; docs/reference/syncers.md: medians from 1.7 to 5.6 s were measured with Flux and Argo CD", time.Minute, 0, 3600 * time.Millisecond, WebhookInterval},
	}
}

// syncer returns one of [Syncers].
func syncer(name string) Syncer {
	for _, s := range Syncers() {
		if s.Name == name {
			return s
		}
	}
	panic("simulation: no syncer " + name)
}

// Use gives a scenario the syncer, with or without notifications.
func (s Syncer) Use(w *Scenario) {
	w.Sync, w.Jitter, w.Notified, w.Triggered = s.Sync, s.Jitter, s.Notified, s.Triggered
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

// pushed lets what was decided take effect at once, or when it is pushed and the syncer finds it.
func (r *run) pushed() {
	if r.scenario.Direct {
		r.applyUpTo(r.overlay.Dispatches)
		return
	}
	commit, at := slices.Clone(r.overlay.Dispatches), r.buildkite.Now().Add(r.scenario.Push)
	r.buildkite.At(at, func() { r.head = commit })
	if r.scenario.Notified > 0 { // it fetches that commit
		r.buildkite.At(at.Add(r.scenario.Notified), func() { r.applyUpTo(commit) })
	}
}

// applied returns when the cluster applies the commit of a tick: at the syncer's next poll, or
// after a notification. A poll at the moment of the push precedes it; see [Play]. False means
// never.
func (r *run) applied(tick time.Time) (time.Time, bool) {
	if r.scenario.Direct {
		return tick, true
	}
	push := tick.Add(r.scenario.Push)
	i := sort.Search(len(r.synced), func(i int) bool { return r.synced[i].After(push) })
	if notified := push.Add(r.scenario.Notified); r.scenario.Notified > 0 && (i == len(r.synced) || notified.Before(r.synced[i])) {
		return notified, true
	}
	if i == len(r.synced) {
		return time.Time{}, false
	}
	return r.synced[i], true
}

// The transports.
const (
	// ThroughGit is by commits that a syncer applies.
	ThroughGit = "git"
	// direct is by the cluster's own API.
	direct = "direct"
)

// apply creates the Jobs of manifests that are new to the cluster.
func (r *run) apply() { r.applyUpTo(r.head) }

// applyUpTo does so with what was in git at an earlier moment, since when nothing can have
// left that was not applied. A manifest without a lease belongs to an algorithm that keeps
// none: it is done with.
func (r *run) applyUpTo(then []plan.Dispatch) {
	if r.down {
		return
	}
	for _, d := range then {
		if !r.cluster.Created(d.ID) {
			r.create(d)
		}
	}
	r.overlay.Dispatches = slices.DeleteFunc(slices.Clone(r.overlay.Dispatches), func(d plan.Dispatch) bool {
		return d.NotAfter.IsZero() && r.cluster.Created(d.ID)
	})
}
