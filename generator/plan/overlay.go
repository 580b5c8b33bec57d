package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Overlay is one directory of the fleet repository: the policy for one queue
// on one Kubernetes cluster, and the dispatches that have not been retired.
type Overlay struct {
	// Name is the overlay's path below the overlays directory, as in
	// "default" or "linux/large".
	Name string
	// Fleet distinguishes the fleet repository from others of the same Buildkite organisation that
	// may have an overlay of the same name. If it is empty (unknown), all agents with the
	// overlay's tag count as the overlay's own.
	Fleet string
	// Former are the slugs that the overlay had before its directory was renamed, and that no other
	// overlay has: agents of these slugs are its own.
	Former []string
	// Policy is its scaling policy.
	Policy Policy
	// Dispatches are the manifests in git, ordered by ID.
	Dispatches []Dispatch
	// Template is a hash of the template from which dispatches are stamped now; empty if it is
	// unknown.
	Template string
	// State is the result of earlier decisions that the next one needs.
	State State
	// Suspended is why muster does not change the overlay: its template does not build, or a
	// dispatch cannot be read. Zero if its files are valid.
	Suspended Suspension
	// Refused is set if nothing is dispatched because the Kubernetes API server would reject the
	// Job.
	Refused Suspension
}

// Slug returns the overlay's name as in the agents' tag "overlay=" and the names of dispatches: at
// most 40 lower case letters, digits and dashes. If that differs from the name, it ends in six digits
// of the name's hash, so that no two overlays have the same slug.
func (o Overlay) Slug() string { return Slug(o.Name) }

// Slug returns the slug of an overlay's name; see [Overlay.Slug].
func Slug(name string) string {
	const longest = 40
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, name)
	clean = strings.Trim(clean, "-")
	if clean == name && len(clean) <= longest {
		return clean
	}
	sum := sha256.Sum256([]byte(name))
	suffix := hex.EncodeToString(sum[:3])
	if len(clean) > longest-7 {
		clean = strings.TrimRight(clean[:longest-7], "-")
	}
	if clean == "" {
		return suffix
	}
	return clean + "-" + suffix
}

// Suspension is the reason why nothing is dispatched for an overlay. It affects neither running agents,
// nor agents in flight, nor other overlays. The zero value suspends nothing.
type Suspension struct {
	// Code identifies the reason; empty if nothing is suspended.
	Code SuspensionCode `json:"code"`
	// Queue is the key of the queue, and Cluster the policy's Buildkite cluster, if the reason
	// concerns them.
	Queue   string `json:"queue,omitempty"`
	Cluster string `json:"cluster,omitempty"`
	// NextProbe is when muster may send the next probe while the circuit breaker is open; nil
	// while the outcome of the last order is unknown.
	NextProbe *time.Time `json:"nextProbe,omitempty"`
	// Finding is what is wrong with the files of an invalid overlay, one line per problem, the
	// git server's words when it refused a push, or which override pauses the overlay.
	Finding string `json:"finding,omitempty"`
}

// SuspensionCode identifies the reason for a suspension.
type SuspensionCode string

// The reasons for which nothing is dispatched.
const (
	// Paused: the policy says paused: true.
	Paused SuspensionCode = "Paused"
	// PausedInBuildkite: somebody paused the queue in Buildkite.
	PausedInBuildkite SuspensionCode = "PausedInBuildkite"
	// Invalid: a file of the overlay is in error.
	Invalid SuspensionCode = "Invalid"
	// PushRefused: the git server refuses muster's changes of this overlay.
	PushRefused SuspensionCode = "PushRefused"
	// BreakerOpen: the circuit breaker is open, so only probes are sent.
	BreakerOpen SuspensionCode = "BreakerOpen"
	// UnknownCluster: Buildkite shows no such cluster.
	UnknownCluster SuspensionCode = "UnknownCluster"
	// UnknownQueue: the policy's cluster, or any, has no such queue.
	UnknownQueue SuspensionCode = "UnknownQueue"
	// AmbiguousQueue: several clusters have the queue, and the policy names none.
	AmbiguousQueue SuspensionCode = "AmbiguousQueue"
	// HostedQueue: the queue is for Buildkite hosted agents.
	HostedQueue SuspensionCode = "HostedQueue"
	// AgentsCannotWork: agents of the last order registered and can take none of the jobs, while
	// others of the order have not registered yet.
	AgentsCannotWork SuspensionCode = "AgentsCannotWork"
)

// SuspensionCodes returns all reasons for which nothing is dispatched.
func SuspensionCodes() []SuspensionCode {
	return []SuspensionCode{Paused, PausedInBuildkite, Invalid, PushRefused, BreakerOpen, UnknownCluster, UnknownQueue, AmbiguousQueue, HostedQueue, AgentsCannotWork}
}

// Active reports whether there is a reason.
func (s Suspension) Active() bool { return s.Code != "" }

// Wanted reports whether a person paused the overlay or the queue. Every other suspension is a
// problem.
func (s Suspension) Wanted() bool { return s.Code == Paused || s.Code == PausedInBuildkite }

// String describes the suspension, with a remedy if that is not obvious.
func (s Suspension) String() string {
	switch s.Code {
	case "":
		return "not suspended"
	case Paused:
		return "paused: " + cmp.Or(s.Finding, "spec.paused is true")
	case PausedInBuildkite:
		return fmt.Sprintf("paused in Buildkite: somebody paused the queue %q", s.Queue)
	case Invalid:
		return "invalid: " + strings.ReplaceAll(s.Finding, "\n", " | ")
	case PushRefused:
		return "push refused: " + strings.ReplaceAll(s.Finding, "\n", " | ")
	case BreakerOpen:
		if s.NextProbe == nil {
			return "the circuit breaker is open, and the outcome of the last order is unknown"
		}
		return "the circuit breaker is open, next probe at " + s.NextProbe.UTC().Format(time.RFC3339)
	case UnknownCluster:
		return fmt.Sprintf("unknown cluster: Buildkite shows no cluster %q; check its name or id, and that the token has the scope read_clusters", s.Cluster)
	case UnknownQueue:
		if s.Cluster == "" {
			return fmt.Sprintf("unknown queue: no cluster has a queue %q, and no agent and no job is in it; check its key", s.Queue)
		}
		return fmt.Sprintf("unknown queue: cluster %q has no queue %q", s.Cluster, s.Queue)
	case AmbiguousQueue:
		return fmt.Sprintf("ambiguous queue: several clusters have a queue %q; set spec.cluster", s.Queue)
	case HostedQueue:
		return fmt.Sprintf("hosted queue: only Buildkite hosted agents can join the queue %q; create a self-hosted queue in the cluster %q", s.Queue, s.Cluster)
	case AgentsCannotWork:
		return "agents cannot work: the registered agents of the last order match none of the jobs for which they were ordered. muster orders again when the outcome of this order is known"
	}
	return string(s.Code)
}

// State is what the next decision needs and the dispatches in git do not contain. It is stored in
// the overlay's directory, with the JSON of these types: their tags must not change. The zero value
// is a fleet that has never failed.
type State struct {
	// Breaker stops dispatching what fails.
	Breaker Breaker `json:"breaker,omitzero"`
	// Ordered are the agents ordered in the last hour, oldest first; kept only
	// where the policy limits them.
	Ordered []Ordered `json:"ordered,omitempty"`
	// LookedAhead is the creation time of the newest upcoming job that agents were dispatched for;
	// zero if the policy does not look ahead.
	LookedAhead time.Time `json:"lookedAhead,omitzero"`
	// Partial are the agents that were dispatched for some of the upcoming jobs created since,
	// because there was no room for all.
	Partial Partial `json:"lookedAheadPartial,omitzero"`
	// StartupTimes are how long the latest agents took from their order to their registration.
	// ServedAt is the order time of the newest retired order with at least half of its agents
	// registered. Both are kept only if the lease depends on them.
	StartupTimes StartupTimes `json:"startupTimes,omitzero"`
	ServedAt     time.Time    `json:"servedAt,omitzero"`
	// AheadOf are the agents that were dispatched for stages of upcoming jobs, while these jobs are
	// upcoming.
	AheadOf []AheadOf `json:"aheadOf,omitempty"`
}

// Partial is the number of agents that were dispatched for some of the upcoming jobs.
type Partial struct {
	// Until is when the newest of these jobs was created.
	Until time.Time `json:"until"`
	// Agents is the number dispatched. At most as many count as there are such jobs left.
	Agents int `json:"agents"`
}

// Equal reports whether two states are equal.
func (s State) Equal(other State) bool {
	return s.Breaker.Equal(other.Breaker) && s.StartupTimes.Equal(other.StartupTimes) && s.ServedAt.Equal(other.ServedAt) && s.LookedAhead.Equal(other.LookedAhead) &&
		s.Partial.Until.Equal(other.Partial.Until) && s.Partial.Agents == other.Partial.Agents && slices.EqualFunc(s.Ordered, other.Ordered, func(a, b Ordered) bool {
		return a.At.Equal(b.At) && a.Agents == b.Agents
	}) && slices.EqualFunc(s.AheadOf, other.AheadOf, AheadOf.Equal)
}

// Ordered is a number of agents ordered at one moment.
type Ordered struct {
	At     time.Time `json:"at"`
	Agents int       `json:"agents"`
}

// lastHour returns the orders of the hour before now, and the sum of their agents.
func (s State) lastHour(now time.Time) (recent []Ordered, agents int) {
	for _, o := range s.Ordered {
		if o.At.After(now.Add(-time.Hour)) {
			recent = append(recent, o)
			agents += o.Agents
		}
	}
	return recent, agents
}

// state returns the state after the decision.
func (s *share) state(now time.Time) State {
	next := State{Breaker: s.breaker, StartupTimes: s.startupTimes, ServedAt: s.lastServed}
	if s.policy.MaxPerHour > 0 {
		next.Ordered, _ = s.overlay.State.lastHour(now)
		if s.sum.Dispatch > 0 {
			next.Ordered = append(slices.Clone(next.Ordered), Ordered{At: now, Agents: s.sum.Dispatch})
		}
	}
	if s.policy.Lookahead > 0 {
		next.LookedAhead, next.Partial = s.overlay.State.LookedAhead, s.overlay.State.Partial
		if s.partial.Agents > 0 {
			next.Partial = s.partial
		}
		next.LookedAhead = later(s.lookedAhead, next.LookedAhead)
		if !next.Partial.Until.After(next.LookedAhead) {
			next.Partial = Partial{}
		}
		next.AheadOf = s.remembers
		slices.SortFunc(next.AheadOf, func(a, b AheadOf) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Stage, b.Stage)) })
	}
	return next
}

// Ordered returns the state if the decision's order is in git and its retirements are not: the next
// decision judges these again.
func (d Decision) Ordered(before State) State {
	next := d.State
	next.Breaker, next.StartupTimes, next.ServedAt = before.Breaker, before.StartupTimes, before.ServedAt
	return next
}
