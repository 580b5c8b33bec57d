// Package status contains the state of muster and its overlays after a tick: one
// value, which probes, metrics, the status page and its JSON use.
//
//	Generator.Run ──Report──▶ Recorder ──▶ Snapshot
package status

import (
	"time"

	"muster/generator"
	"muster/generator/condition"
	"muster/generator/ledger"
	"muster/generator/plan"
)

// Snapshot is everything that is known after a tick. It is never changed: every
// tick makes another one. Its JSON is what /status.json serves.
type Snapshot struct {
	// Muster is what runs.
	Muster Muster `json:"muster"`
	// Started is when the process started.
	Started time.Time `json:"started"`
	// Tick is the last tick, or the one under way.
	Tick Tick `json:"tick"`
	// Success is when a tick last ended without an error; zero: none has.
	Success time.Time `json:"success,omitzero"`
	// Git and Buildkite say whether each answers.
	Git       Contact `json:"git"`
	Buildkite Contact `json:"buildkite"`
	// Observed is the time of the poll that the figures are from; zero before the first
	// poll. Head is the branch's head after that tick.
	Observed time.Time `json:"observed,omitzero"`
	Head     string    `json:"head,omitempty"`
	// Overlays are all overlays by name, and Queues all queues that they serve or
	// that have jobs which none serves, by key.
	Overlays []Overlay `json:"overlays"`
	Queues   []Queue   `json:"queues"`
	// Operations are the last operations of this process, the newest first, with their text.
	Operations []ledger.Operation `json:"operations"`
	// Conditions are those of muster itself and of queues that no overlay serves.
	Conditions []condition.Condition `json:"conditions"`
	// Services is what was exchanged with whom since the start.
	Services []Service `json:"services"`
	// Receivers are the receivers of notifications of pushes.
	Receivers []Receiver `json:"receivers,omitempty"`
	// TokenExpires is when the Buildkite API token stops to work; zero: it does
	// not, or that is not known.
	TokenExpires time.Time `json:"tokenExpires,omitzero"`

	interval, longest time.Duration
}

// Muster describes the running muster.
type Muster struct {
	// Version and Commit are the build's; Commit may be empty.
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	// Repository is the fleet repository's address without anything secret.
	Repository   string `json:"repository"`
	Branch       string `json:"branch"`
	Overlays     string `json:"overlays"`
	Organisation string `json:"organization"`
	// CommitURL is the page of a commit, with {commit} in place of its ID; empty: that of the host of
	// Repository, if it is known.
	CommitURL string `json:"-"`
	// Triggered reports whether scheduled jobs trigger ticks, by webhooks or by the agent metrics.
	Triggered bool `json:"-"`
	// DryRun reports that nothing is committed.
	DryRun bool `json:"dryRun,omitempty"`
}

// Tick is one tick.
type Tick struct {
	// Count is how many have ended.
	Count int `json:"count"`
	// Running reports whether one is under way, since Began.
	Running bool      `json:"running"`
	Began   time.Time `json:"began,omitzero"`
	// Ended is when the last one ended, and Next when the next is to begin.
	Ended time.Time `json:"ended,omitzero"`
	Next  time.Time `json:"next,omitzero"`
	// Seconds is how long the last one took, and Steps each of its steps.
	Seconds float64                    `json:"seconds"`
	Steps   map[generator.Step]float64 `json:"steps,omitempty"`
	// Outcome is its outcome; Failed and Error are the step that failed and the error.
	Outcome generator.Outcome `json:"outcome,omitempty"`
	Failed  generator.Step    `json:"failed,omitempty"`
	Error   string            `json:"error,omitempty"`
}

// Contact says whether a server answers.
type Contact struct {
	// Answered is when it last did; zero: it has not yet.
	Answered time.Time `json:"answered,omitzero"`
	// Problem is the last error that it had a part in; empty once it answers.
	Problem string `json:"problem,omitempty"`
	// until is when the answer no longer counts as recent, and fresh when figures of that time are
	// outdated. They differ if muster waits because a server asks it to.
	until, fresh time.Time
}

// Overlay is one overlay. Its figures are those of the decision at the snapshot's
// Observed, and zero where it could not be decided on.
type Overlay struct {
	Name string `json:"name"`
	// Queue and Cluster are the policy's; Queue is empty where that cannot be read.
	Queue   string `json:"queue,omitempty"`
	Cluster string `json:"cluster,omitempty"`
	// Known reports whether there are figures.
	Known bool `json:"known"`
	// Sum is the arithmetic of the decision.
	Sum plan.Figures `json:"sum"`
	// Decision is the decision, for metrics; nil if there are no figures. It must not be changed.
	Decision *plan.Decision `json:"-"`
	// Oldest is since when the oldest pending job that it could serve is runnable;
	// zero: none is pending.
	Oldest time.Time `json:"oldest,omitzero"`
	// Schedule is the schedule in force; empty: none.
	Schedule string `json:"schedule,omitempty"`
	// State is the state in a word; see [condition.State].
	State string `json:"state"`
	// Conditions are the conditions of the overlay, one of each type.
	Conditions []condition.Condition `json:"conditions"`
	// Why is the arithmetic of the decision in a sentence; empty without a decision.
	Why string `json:"why,omitempty"`
	// Dispatches is how many are in git, and Orders those before the decision, for the page. They must
	// not be changed.
	Dispatches int             `json:"dispatches"`
	Orders     []plan.Dispatch `json:"-"`
	// QueueID and ClusterID identify the queue in Buildkite; empty if that is not known.
	QueueID, ClusterID string `json:"-"`
}

// Queue is one queue.
type Queue struct {
	Key string `json:"key"`
	// Pending is how many of its jobs are pending that some overlay could serve.
	Pending int `json:"pending"`
	// Unmatched is how many runnable jobs no overlay can serve, and Groups which.
	Unmatched int              `json:"unmatched,omitempty"`
	Groups    []plan.Unmatched `json:"groups,omitempty"`
	// Unserved are those of Unmatched that are in a cluster in which no overlay is for
	// the queue, by cluster.
	Unserved []plan.Unserved `json:"unserved,omitempty"`
	// Served reports whether any overlay is for the queue, in whatever cluster; Example
	// is the page of a job where none is.
	Served  bool   `json:"served"`
	Example string `json:"example,omitempty"`
}

// Service is what was exchanged with one server since the start.
type Service struct {
	// Name is git, buildkite or github.
	Name     string `json:"name"`
	Requests int64  `json:"requests"`
	Failures int64  `json:"failures"`
	// Sent and Received are bytes.
	Sent     int64 `json:"sent"`
	Received int64 `json:"received"`
	// Limits are the server's limits in its last response.
	Limits []Limit `json:"limits,omitempty"`
}

// Limit is one rate limit: requests in a window of the server's.
type Limit struct {
	// Scope distinguishes limits of one server, as in "rest" and "rest_user".
	Scope     string `json:"scope"`
	Limit     int64  `json:"limit"`
	Remaining int64  `json:"remaining"`
}

// Receiver is a receiver of notifications of pushes. Every push that is not under way is one of
// Told, Failed and Merged.
type Receiver struct {
	Name string `json:"name"`
	// Sent is the number of pushes that it was notified of, Failed of those whose
	// notification failed, and Merged of those that were part of a later notification, since
	// the start.
	Sent   int64 `json:"sent"`
	Failed int64 `json:"failed"`
	Merged int64 `json:"merged"`
	// Seconds is how long the last successful notification took, from the push to the
	// response; zero before the first.
	Seconds float64 `json:"seconds"`
}
