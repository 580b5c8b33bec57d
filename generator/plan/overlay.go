package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"
)

// Overlay is one directory of the fleet repository: the policy for one queue
// on one Kubernetes cluster, and the dispatches that have not been retired.
type Overlay struct {
	// Name is the overlay's path below the overlays directory, as in
	// "default" or "linux/large".
	Name string
	// Policy is what its people ask for.
	Policy Policy
	// Dispatches are the manifests in git, ordered by ID.
	Dispatches []Dispatch
	// State is what was remembered for the next decision.
	State State
	// Broken says why the overlay is left alone: a template that does not
	// build, a dispatch that cannot be read. Empty when it is sound.
	Broken string
}

// Slug is the overlay's name as its agents carry it in their tag "overlay="
// and as its dispatches are named: lower case letters, digits and dashes, at
// most 40. A name that must be changed to fit ends in six digits of its hash,
// so that two overlays never share a slug.
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

// Policy is the scaling policy of one overlay, with every default filled in.
type Policy struct {
	// Queue is the key of the Buildkite queue that the agents serve.
	Queue string
	// Cluster is the name or the identifier of the Buildkite cluster; empty
	// where the queue's key is enough to tell.
	Cluster string
	// Tags are the agents' further tags as "key=value", sorted.
	Tags []string
	// Min is the number of agents that are kept whatever is waiting.
	Min int
	// Max is the number of agents that is never passed.
	Max int
	// Buffer is the number of agents that are kept idle, ready for jobs to come.
	Buffer int
	// Lookahead is the share, 0 to 1, of waiting jobs that agents are started
	// for before the jobs become runnable.
	Lookahead float64
	// MaxDispatch is the largest number of agents one Job orders, at least 1.
	MaxDispatch int
	// Lease is the time in which a dispatch's agents may start.
	Lease time.Duration
	// IdleTimeout is how long an agent ordered for a job waits for one, and
	// WarmIdleTimeout how long an agent kept for Min and Buffer does.
	IdleTimeout, WarmIdleTimeout time.Duration
	// Priority orders the overlays that serve one queue: higher first.
	Priority int
	// MaxPerHour is the number of agents ordered in any hour that is never
	// passed; zero means no such limit.
	MaxPerHour int
	// Schedules change Min, Max and Buffer in named windows.
	Schedules []Schedule
	// Paused stops ordering. Dispatches are still retired: that ends no agent,
	// and a manifest left in git past its Job's TTL would be run again.
	Paused bool
}

// Purpose is why agents were ordered.
type Purpose string

// The purposes of a dispatch.
const (
	// ForDemand orders agents for jobs that are there.
	ForDemand Purpose = "demand"
	// ForWarmPool orders agents for the policy's min and buffer.
	ForWarmPool Purpose = "upkeep"
)

// Dispatch is one order of agents: one Job manifest in git.
type Dispatch struct {
	// ID names the manifest, the Job and the agents' tag "dispatch=". It is
	// never used twice.
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
	// Tags are the tags that its agents were told to carry, without those for
	// the dispatch and the index; see [Overlay.AgentTags]. The policy may have
	// changed since. Nil stands for those of the policy.
	Tags []string
}

// MarshalJSON writes the idle time-out in words, as in "5m0s".
func (d Dispatch) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		ID          string    `json:"id"`
		Purpose     Purpose   `json:"purpose"`
		Agents      int       `json:"agents"`
		At          time.Time `json:"at"`
		NotAfter    time.Time `json:"notAfter"`
		IdleTimeout string    `json:"idleTimeout"`
		Tags        []string  `json:"tags"`
	}{d.ID, d.Purpose, d.Agents, d.At, d.NotAfter, d.IdleTimeout.String(), d.Tags})
}

// Grace is how long after its lease an index that was not seen is presumed
// lost: the clocks of muster and of the agents may differ by that much.
const Grace = time.Minute

// Stale reports whether the dispatch's lease ended so long ago that Buildkite is
// not asked any more what became of it: muster was away. It is retired without
// a verdict.
func (d Dispatch) Stale(now time.Time) bool {
	return now.After(d.NotAfter.Add(time.Hour))
}

// Expired reports whether no agent of the dispatch can start any more.
func (d Dispatch) Expired(now time.Time) bool {
	return now.After(d.NotAfter.Add(Grace))
}
