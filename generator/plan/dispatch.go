package plan

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Purpose is why agents were ordered.
type Purpose string

// The purposes of a dispatch.
const (
	// ForDemand orders agents for existing jobs.
	ForDemand Purpose = "demand"
	// ForWarmPool orders agents for the policy's min and buffer.
	ForWarmPool Purpose = "warm-pool"
)

// Dispatch is one order of agents: one Job manifest in git.
type Dispatch struct {
	// ID is the name of the manifest and the Job, and the agents' tag "dispatch=". It is unique.
	ID string
	// Purpose is why the agents were ordered.
	Purpose Purpose
	// Agents is the number ordered. Their indexes are 0 to Agents-1.
	Agents int
	// At is when they were ordered, to the second.
	At time.Time
	// NotAfter is the end of the lease, to the second: an agent that starts
	// later exits at once.
	NotAfter time.Time
	// IdleTimeout is how long each agent waits for a job.
	IdleTimeout time.Duration
	// Uptime is for how long each agent takes jobs, from when it connected; zero: it
	// takes one.
	Uptime time.Duration
	// Tags are the tags that its agents were ordered with, except those for the dispatch and the
	// index; see [Overlay.AgentTags]. The policy may have changed since. Nil means the tags of the
	// policy.
	Tags []string
	// Cluster is the Buildkite cluster of the policy at the time of the order; empty if it named
	// none. The policy may have changed since.
	Cluster string
	// Template is a hash of the template that it was stamped from; empty before.
	Template string
	// Manifest is a digest of its manifest as muster wrote it; empty before.
	Manifest string
	// Withdrawn reports that no syncer applies its manifest any more, although its lease has not expired;
	// see [Withdrawn]. It never ends.
	Withdrawn bool
	// PutBack reports that it was retired, and that the retirement was reverted: it counts again, and its
	// outcome is known.
	PutBack bool
	// Edited reports that somebody edited its manifest, and that the manifest stays.
	Edited bool
}

// PodTags returns all tags in the manifest of its agents, except the index: Tags, the dispatch,
// the idle time-out (warm pool only), and [Dispatch.StayTags].
func (d Dispatch) PodTags() []string {
	tags := append(slices.Clone(d.Tags), TagDispatch+"="+d.ID)
	if d.Purpose == ForWarmPool {
		tags = append(tags, fmt.Sprintf("%s=%d", TagWarm, int64(d.IdleTimeout/time.Second)))
	}
	return append(tags, d.StayTags()...)
}

// StayTags returns the tags by which muster judges reusable agents for their whole life: their
// uptime, and the template that they were created from, if it is known. It returns none for agents
// that take one job.
func (d Dispatch) StayTags() (tags []string) {
	if d.Uptime > 0 {
		tags = append(tags, fmt.Sprintf("%s=%d", TagUptime, int64(d.Uptime/time.Second)))
		if d.Template != "" {
			tags = append(tags, TagTemplate+"="+d.Template)
		}
	}
	return tags
}

// longestIdle returns how long each agent may be connected without a job.
func (d Dispatch) longestIdle() time.Duration {
	if d.Uptime > 0 {
		return min(d.IdleTimeout, d.Uptime)
	}
	return d.IdleTimeout
}

// MarshalJSON formats the idle time-out and the uptime as in "5m0s".
func (d Dispatch) MarshalJSON() ([]byte, error) {
	uptime := ""
	if d.Uptime > 0 {
		uptime = d.Uptime.String()
	}
	return json.Marshal(struct {
		ID          string    `json:"id"`
		Purpose     Purpose   `json:"purpose"`
		Agents      int       `json:"agents"`
		At          time.Time `json:"at"`
		NotAfter    time.Time `json:"notAfter"`
		IdleTimeout string    `json:"idleTimeout"`
		Uptime      string    `json:"uptime,omitempty"`
		Tags        []string  `json:"tags"`
		Cluster     string    `json:"cluster,omitempty"`
	}{d.ID, d.Purpose, d.Agents, d.At, d.NotAfter, d.IdleTimeout.String(), uptime, d.Tags, d.Cluster})
}

// JobAgents is the maximum number of agents in one Job. Larger orders are several Jobs.
const JobAgents = 100

// order splits the agents into dispatches.
func (s *allocation) order(head string, at time.Time) []Dispatch {
	p := s.policy
	tags := s.overlay.AgentTags()
	var all []Dispatch
	cut := func(purpose Purpose, agents int, idle time.Duration) {
		for agents > 0 {
			n := min(agents, JobAgents)
			agents -= n
			all = append(all, Dispatch{
				ID: dispatchID(s.overlay, purpose, head, at, len(all)), Purpose: purpose, Agents: n,
				At: at, NotAfter: at.Add(s.lease()), IdleTimeout: idle, Uptime: p.Reuse.Uptime, Tags: tags, Cluster: p.Cluster,
			})
		}
	}
	cut(ForDemand, s.figures.Demand, s.demandIdle())
	cut(ForWarmPool, s.figures.WarmPool, p.WarmIdleTimeout)
	return all
}

// warmInfix marks the names of dispatches for the warm pool.
const warmInfix = "-warm-"

// crockford is Crockford's base32: without i, l, o and u.
var crockford = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz")

// dispatchID returns the name of the n-th dispatch of a decision: the overlay's slug and 40 bits of a
// hash of everything that identifies the decision.
func dispatchID(v Overlay, purpose Purpose, head string, at time.Time, n int) string {
	var place [128]byte // a large order has many names
	text := append(append(append(append(place[:0], head...), '\n'), v.Name...), '\n')
	text = strconv.AppendInt(append(strconv.AppendInt(text, at.Unix(), 10), '\n'), int64(n), 10)
	sum := sha256.Sum256(text)
	var digits [idDigits]byte
	crockford.Encode(digits[:], sum[:5])
	infix := "-"
	if purpose == ForWarmPool {
		infix = warmInfix
	}
	return v.Slug() + infix + string(digits[:])
}

// idDigits is the number of digits after the last dash of a dispatch's name.
const idDigits = 8

// WarmPoolID reports whether a dispatch of that name was ordered for the warm pool.
func WarmPoolID(id string) bool {
	end := len(id) - idDigits
	return end > 0 && strings.HasSuffix(id[:end], warmInfix)
}

// NameTags returns the overlay, dispatch and index in the name of an agent, as tags: the agent Job names
// agents after their pods, DISPATCH-INDEX. It returns nil for other names.
func NameTags(name string) []string {
	at := strings.LastIndexByte(name, '-')
	end := at - idDigits
	if end < 1 {
		return nil
	}
	index, err := strconv.Atoi(name[at+1:])
	overlay, separated := strings.CutSuffix(name[:end], warmInfix)
	if !separated {
		overlay, separated = strings.CutSuffix(name[:end], "-")
	}
	if _, invalid := crockford.DecodeString(name[end:at]); err != nil || !separated || overlay == "" || invalid != nil || strconv.Itoa(index) != name[at+1:] {
		return nil
	}
	return []string{TagOverlay + "=" + overlay, TagDispatch + "=" + name[:at], TagIndex + "=" + name[at+1:]}
}

// The lease makes the accounting exact. Every dispatch has a time, NotAfter, and an agent that starts
// later exits at once. So each index of a dispatch is in exactly one of three states: registered
// (Buildkite has listed its agent), in flight (it may still register), or lost (the lease and the
// grace have expired). Supply consists of connected agents and of agents in flight.

// ClockSkew is the maximum difference between the clocks of muster and Buildkite; beyond it there is no
// decision. The clocks of Kubernetes' nodes are assumed to be as exact.
const ClockSkew = time.Minute

// Grace is how long after its lease an index that was not seen is presumed lost: a minute for
// clocks that differ, and a minute for what follows the agent's last check of the lease.
//
// An agent checks its lease when it starts and, once it is registered, again before it connects
// (base/job.yaml). It then tries to connect for up to 45 s (buildkite-agent 3.138.2, ten times
// every five seconds).
const Grace = ClockSkew + time.Minute

// Expired reports whether no agent of the dispatch can start any more.
func (d Dispatch) Expired(now time.Time) bool {
	return now.After(d.NotAfter.Add(Grace))
}

// Withdrawable reports whether the syncer has had time to create the dispatch's Job: a third of the
// lease, and at most five minutes, which exceeds Argo CD's polling interval.
func (d Dispatch) Withdrawable(now time.Time) bool {
	return !now.Before(d.At.Add(min(d.NotAfter.Sub(d.At)/3, 5*time.Minute)))
}

// Stale reports whether the dispatch's lease expired so long ago that muster does not ask Buildkite
// about its agents: muster did not run. It is retired without an outcome.
func (d Dispatch) Stale(now time.Time) bool {
	return now.After(d.NotAfter.Add(time.Hour))
}
