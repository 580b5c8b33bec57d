package ledger

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"muster/generator/plan"
)

// The stored observation of muster 0.2.0, which has no version. It names some
// things otherwise: waiting (upcoming), leaving (replacing), useless (wrong
// tags), settled (registered at), held (suspended, as prose), and busy, which is
// the queue's; the overlay's own busy agents are not in it. Its idle agents were
// handed out before it was written: some to a group of jobs (idle), the rest to
// an overlay (spare).
type (
	observation020 struct {
		At        time.Time         `json:"at"`
		Queue     string            `json:"queue"`
		Jobs      []demand020       `json:"jobs"`
		Overlays  []supply020       `json:"overlays"`
		Unmatched []storedUnmatched `json:"unmatched"`
	}
	demand020 struct {
		Overlays []string   `json:"overlays"`
		Pending  int        `json:"pending"`
		Idle     int        `json:"idle"`
		Oldest   *time.Time `json:"oldest"`
		Waiting  int        `json:"waiting"`
		Limited  int        `json:"limited"`
		Blocked  int        `json:"blocked"`
	}
	supply020 struct {
		Overlay    string             `json:"overlay"`
		Held       string             `json:"held"`
		Spare      int                `json:"spare"`
		Leaving    int                `json:"leaving"`
		Useless    int                `json:"useless"`
		Busy       int                `json:"busy"`
		Own        int                `json:"own"`
		Stopping   int                `json:"stopping"`
		Dispatches map[string]seen020 `json:"dispatches"`
	}
	seen020 struct {
		Registered string     `json:"registered"`
		Settled    *time.Time `json:"settled"`
		Worked     bool       `json:"worked"`
		Connected  int        `json:"connected"`
		Useless    int        `json:"useless"`
	}
)

// observation says it in today's words.
func (s observation020) observation() (plan.Observation, error) {
	now := storedObservation{At: s.At, Queue: s.Queue, Unmatched: s.Unmatched}
	for j, d := range s.Jobs {
		now.Jobs = append(now.Jobs, storedDemand{
			Overlays: d.Overlays, Pending: d.Pending, Oldest: d.Oldest,
			Upcoming: d.Waiting, Fresh: d.Waiting, Limited: d.Limited, Blocked: d.Blocked,
		})
		if d.Idle > 0 {
			now.Idle = append(now.Idle, storedIdle{Agents: d.Idle, Jobs: strconv.Itoa(j)})
		}
	}
	for _, x := range s.Overlays {
		supply := storedSupply{
			Overlay: x.Overlay, WrongTags: x.Useless,
			QueueBusy: x.Busy, Own: x.Own, Stopping: x.Stopping, Dispatches: map[string]storedSeen{},
		}
		if x.Leaving > 0 {
			now.Idle = append(now.Idle, storedIdle{Agents: x.Leaving, Overlay: x.Overlay, Replacing: true})
		}
		if x.Spare > x.Leaving {
			now.Idle = append(now.Idle, storedIdle{Agents: x.Spare - x.Leaving, Overlay: x.Overlay})
		}
		if x.Held != "" {
			why, err := heldReason(x.Held)
			if err != nil {
				return plan.Observation{}, err
			}
			supply.Suspended = &why
		}
		for id, seen := range x.Dispatches {
			supply.Dispatches[id] = storedSeen{
				Registered: seen.Registered, RegisteredAt: seen.Settled,
				Worked: seen.Worked, Connected: seen.Connected, WrongTags: seen.Useless,
			}
		}
		now.Overlays = append(now.Overlays, supply)
	}
	return now.observation()
}

// quotedWord is a word as %q writes it.
const quotedWord = `("(?:[^"\\]|\\.)*")`

// The sentences in which 0.2.0 said why an overlay was held.
var (
	heldPaused         = regexp.MustCompile(`^queue ` + quotedWord + ` is paused in Buildkite$`)
	heldUnknownQueue   = regexp.MustCompile(`^cluster ` + quotedWord + ` has no queue ` + quotedWord + `$`)
	heldAmbiguousQueue = regexp.MustCompile(`^several clusters have a queue ` + quotedWord + `: set spec\.cluster$`)
	heldUnknownCluster = regexp.MustCompile(`^Buildkite shows no cluster ` + quotedWord + `: `)
)

// heldReason makes a code of such a sentence.
func heldReason(text string) (storedSuspension, error) {
	for _, known := range []struct {
		sentence *regexp.Regexp
		make     func(words []string) storedSuspension
	}{
		{heldPaused, func(w []string) storedSuspension {
			return storedSuspension{Code: string(plan.PausedInBuildkite), Queue: w[0]}
		}},
		{heldUnknownQueue, func(w []string) storedSuspension {
			return storedSuspension{Code: string(plan.UnknownQueue), Cluster: w[0], Queue: w[1]}
		}},
		{heldAmbiguousQueue, func(w []string) storedSuspension {
			return storedSuspension{Code: string(plan.AmbiguousQueue), Queue: w[0]}
		}},
		{heldUnknownCluster, func(w []string) storedSuspension {
			return storedSuspension{Code: string(plan.UnknownCluster), Cluster: w[0]}
		}},
	} {
		found := known.sentence.FindStringSubmatch(text)
		if found == nil {
			continue
		}
		words := found[1:]
		for i, w := range words {
			word, err := strconv.Unquote(w)
			if err != nil {
				return storedSuspension{}, fmt.Errorf("held: %w: %s", err, w)
			}
			words[i] = word
		}
		return known.make(words), nil
	}
	return storedSuspension{}, fmt.Errorf("held: %.80q is no reason of 0.2.0", text)
}
