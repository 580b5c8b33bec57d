package plan

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Suspension is the reason why nothing is dispatched for an overlay. It affects neither running agents,
// nor agents in flight, nor other overlays. The zero value suspends nothing.
type Suspension struct {
	// Code identifies the reason; empty if nothing is suspended.
	Code SuspensionCode `json:"code"`
	// Queue is the key of the queue, and Cluster the policy's Buildkite cluster, if the reason
	// concerns them. If the queue is ambiguous, Cluster lists the clusters that have it.
	Queue   string `json:"queue,omitempty"`
	Cluster string `json:"cluster,omitempty"`
	// NextTrial is when muster may send the next trial while the circuit breaker is open; nil
	// while the outcome of the last order is unknown.
	NextTrial *time.Time `json:"nextTrial,omitempty"`
	// Finding is what is wrong with the files of an invalid overlay, one line per problem, the
	// git server's words when it refused a push, which override pauses the overlay, which manifest was
	// edited, or how many agents have unknown orders.
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
	// BreakerOpen: the circuit breaker is open, so only trials are sent.
	BreakerOpen SuspensionCode = "BreakerOpen"
	// UnknownCluster: Buildkite shows no such cluster.
	UnknownCluster SuspensionCode = "UnknownCluster"
	// UnknownQueue: the policy's cluster, or any, has no such queue.
	UnknownQueue SuspensionCode = "UnknownQueue"
	// AmbiguousQueue: several clusters have the queue, and the policy names none.
	AmbiguousQueue SuspensionCode = "AmbiguousQueue"
	// HostedQueue: the queue is for Buildkite hosted agents.
	HostedQueue SuspensionCode = "HostedQueue"
	// Drifted: somebody edited the manifest of an order whose agents may still come, so that it is unknown
	// what the cluster runs.
	Drifted SuspensionCode = "Drifted"
	// UnknownOrders: agents of the overlay connected whose orders git does not contain, so that others of
	// these orders may follow.
	UnknownOrders SuspensionCode = "UnknownOrders"
	// AgentsCannotWork: agents of the last order registered and can take none of the jobs, while
	// others of the order have not registered yet.
	AgentsCannotWork SuspensionCode = "AgentsCannotWork"
)

// SuspensionCodes returns all reasons for which nothing is dispatched.
func SuspensionCodes() []SuspensionCode {
	return []SuspensionCode{Paused, PausedInBuildkite, Invalid, PushRefused, BreakerOpen, UnknownCluster, UnknownQueue, AmbiguousQueue, HostedQueue, Drifted, UnknownOrders, AgentsCannotWork}
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
		if s.NextTrial == nil {
			return "the circuit breaker is open, and the outcome of the last order is unknown"
		}
		return "the circuit breaker is open, next trial at " + s.NextTrial.UTC().Format(time.RFC3339)
	case UnknownCluster:
		return fmt.Sprintf("unknown cluster: Buildkite shows no cluster %q; check its name or id, and that the token has the scope read_clusters", s.Cluster)
	case UnknownQueue:
		if s.Cluster == "" {
			return fmt.Sprintf("unknown queue: no cluster has a queue %q, and no agent and no job is in it; check its key", s.Queue)
		}
		return fmt.Sprintf("unknown queue: cluster %q has no queue %q", s.Cluster, s.Queue)
	case AmbiguousQueue:
		return fmt.Sprintf("ambiguous queue: several clusters have a queue %q: %s; set spec.cluster to one of them", s.Queue, strings.ReplaceAll(strconv.Quote(s.Cluster), ", ", `", "`))
	case HostedQueue:
		return fmt.Sprintf("hosted queue: only Buildkite hosted agents can join the queue %q; create a self-hosted queue in the cluster %q", s.Queue, s.Cluster)
	case Drifted:
		return "drifted: " + s.Finding
	case UnknownOrders:
		return "unknown orders: " + s.Finding
	case AgentsCannotWork:
		return "agents cannot work: the registered agents of the last order match none of the jobs for which they were ordered. muster orders again when the outcome of this order is known"
	}
	return string(s.Code)
}

// unknownOrders returns the suspension of an overlay while agents may register whose orders git does not
// contain: they would be ordered again.
func (s *allocation) unknownOrders() Suspension {
	c := s.capacity
	if c.Unknown == 0 || c.UnknownUntil == nil {
		return Suspension{}
	}
	return Suspension{Code: UnknownOrders, Finding: fmt.Sprintf("%s of this overlay connected whose orders the branch does not contain, and others of these orders may follow until %s: was the branch set back?", quantity(c.Unknown, "agent"), c.UnknownUntil.Format(time.RFC3339))}
}

// quantity returns a number with its noun, as in "1 agent" and "2 agents".
func quantity(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// drift returns the suspension of an overlay while agents of an order may register whose manifest somebody
// edited: what the cluster runs is unknown.
func (s *allocation) drift(now time.Time) Suspension {
	for _, d := range s.overlay.Dispatches {
		if s.overlay.drifted(d) && !d.Expired(now) && s.capacity.Dispatches[d.ID].Registered.Below(d.Agents) < d.Agents {
			return Suspension{Code: Drifted, Finding: "the manifest of " + d.ID + " was edited while its agents may still register"}
		}
	}
	return Suspension{}
}
