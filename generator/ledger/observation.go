package ledger

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

	"muster/generator/plan"
)

// format is the version of the stored observation that is written. Fields may
// be added to it; one that changes its meaning makes a new version.
const format = 2

// The stored observation, version 2: a format apart from [plan.Observation],
// so that the commits of today stay readable whatever becomes of the code. Its
// fields are those of the types in package plan.
type (
	storedObservation struct {
		Version   int               `json:"version"`
		At        time.Time         `json:"at"`
		Until     *time.Time        `json:"until,omitempty"`
		Queue     string            `json:"queue"`
		Jobs      []storedDemand    `json:"jobs,omitempty"`
		Idle      []storedIdle      `json:"idle,omitempty"`
		Overlays  []storedSupply    `json:"overlays"`
		Unmatched []storedUnmatched `json:"unmatched,omitempty"`
	}
	storedDemand struct {
		Overlays    []string       `json:"overlays"`
		Pending     int            `json:"pending,omitempty"`
		OtherQueues int            `json:"otherQueues,omitempty"`
		Oldest      *time.Time     `json:"oldest,omitempty"`
		Upcoming    int            `json:"upcoming,omitempty"`
		Fresh       int            `json:"fresh,omitempty"`
		Newest      *time.Time     `json:"newest,omitempty"`
		Partial     map[string]int `json:"partial,omitempty"`
		Stages      []storedStage  `json:"stages,omitempty"`
		Later       int            `json:"later,omitempty"`
		Within      int            `json:"within,omitempty"`
		Earliest    *time.Time     `json:"earliest,omitempty"`
		Limited     int            `json:"limited,omitempty"`
		Blocked     int            `json:"blocked,omitempty"`
	}
	storedIdle struct {
		Agents    int    `json:"agents"`
		Overlay   string `json:"overlay,omitempty"`
		Replacing bool   `json:"replacing,omitempty"`
		Jobs      string `json:"jobs,omitempty"`
	}
	storedSupply struct {
		Overlay     string                `json:"overlay"`
		Suspended   *storedSuspension     `json:"suspended,omitempty"`
		WrongTags   int                   `json:"wrongTags,omitempty"`
		Busy        int                   `json:"busy,omitempty"`
		QueueBusy   int                   `json:"queueBusy,omitempty"`
		Own         int                   `json:"own,omitempty"`
		Reusable    int                   `json:"reusable,omitempty"`
		Stopping    int                   `json:"stopping,omitempty"`
		OtherQueue  int                   `json:"otherQueue,omitempty"`
		OtherFleets int                   `json:"otherFleets,omitempty"`
		MaxJobs     int                   `json:"maxJobs,omitempty"`
		Dispatches  map[string]storedSeen `json:"dispatches,omitempty"`
		OtherTags   map[string]storedTags `json:"otherTags,omitempty"`
	}
	storedTags struct {
		Jobs  string `json:"jobs,omitempty"`
		Spare bool   `json:"spare,omitempty"`
	}
	storedSuspension struct {
		Code      string     `json:"code"`
		Queue     string     `json:"queue,omitempty"`
		Cluster   string     `json:"cluster,omitempty"`
		NextProbe *time.Time `json:"nextProbe,omitempty"`
		Finding   string     `json:"finding,omitempty"`
	}
	storedSeen struct {
		Registered   string            `json:"registered,omitempty"`
		FirstAt      *time.Time        `json:"firstAt,omitempty"`
		RegisteredAt *time.Time        `json:"registeredAt,omitempty"`
		StartupTimes plan.StartupTimes `json:"startupTimes,omitzero"`
		HadJob       int               `json:"hadJob,omitempty"`
		Connected    int               `json:"connected,omitempty"`
		WrongTags    int               `json:"wrongTags,omitempty"`
	}
	storedUnmatched struct {
		Rules       []string `json:"rules"`
		Missing     []string `json:"missing"`
		Unclustered bool     `json:"unclustered,omitempty"`
		Jobs        int      `json:"jobs"`
		Example     string   `json:"example,omitempty"`
	}
)

// encodeObservation is one line of JSON, as a person and a forge may read it.
// What Buildkite's users wrote into it can neither end the line, nor hide or
// turn around what a terminal shows, nor call somebody or close an issue where
// the commit is shown: docs.github.com, "Linking a pull request to an issue".
func encodeObservation(o plan.Observation) string {
	text, err := json.Marshal(store(o))
	if err != nil { // as of a time that JSON cannot write: a defect, and better seen than hidden
		return fmt.Sprintf("%q", err)
	}
	line := closing.ReplaceAllStringFunc(string(text), func(keyword string) string {
		return strings.ReplaceAll(keyword, " ", `\u0020`)
	})
	var plain strings.Builder
	for _, c := range line {
		switch {
		case c != '@' && unicode.IsPrint(c):
			plain.WriteRune(c)
		case c > 0xffff:
			high, low := utf16.EncodeRune(c)
			fmt.Fprintf(&plain, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&plain, `\u%04x`, c)
		}
	}
	return plain.String()
}

// closing is what stands before an issue that a commit closes.
var closing = regexp.MustCompile(`(?i)(close[sd]?|fix(es|ed)?|resolve[sd]?):? `)

// store makes the stored form of an observation.
func store(o plan.Observation) storedObservation {
	s := storedObservation{Version: format, At: o.At, Queue: o.Queue, Overlays: []storedSupply{}}
	if !o.Until.IsZero() {
		s.Until = &o.Until
	}
	for _, d := range o.Jobs {
		s.Jobs = append(s.Jobs, storeDemand(d))
	}
	for _, g := range o.Idle {
		s.Idle = append(s.Idle, storedIdle{Agents: g.Agents, Overlay: g.Overlay, Replacing: g.Replacing, Jobs: g.Jobs.String()})
	}
	for _, x := range o.Overlays {
		supply := storedSupply{
			Overlay: x.Overlay, WrongTags: x.WrongTags, Busy: x.Busy, QueueBusy: x.QueueBusy,
			Own: x.Own, Reusable: x.Reusable, Stopping: x.Stopping, OtherQueue: x.OtherQueue, OtherFleets: x.OtherFleets,
			MaxJobs: x.MaxJobs,
		}
		if y := x.Suspended; y != (plan.Suspension{}) {
			supply.Suspended = &storedSuspension{Code: string(y.Code), Queue: y.Queue, Cluster: y.Cluster, NextProbe: y.NextProbe, Finding: y.Finding}
		}
		for id, seen := range x.Dispatches {
			if supply.Dispatches == nil {
				supply.Dispatches = map[string]storedSeen{}
			}
			supply.Dispatches[id] = storedSeen{
				Registered: seen.Registered.String(), FirstAt: seen.FirstAt, RegisteredAt: seen.RegisteredAt, StartupTimes: seen.StartupTimes,
				HadJob: seen.HadJob, Connected: seen.Connected, WrongTags: seen.WrongTags,
			}
		}
		for id, x := range x.OtherTags {
			if supply.OtherTags == nil {
				supply.OtherTags = map[string]storedTags{}
			}
			supply.OtherTags[id] = storedTags{Jobs: x.Jobs.String(), Spare: x.Spare}
		}
		s.Overlays = append(s.Overlays, supply)
	}
	for _, u := range o.Unmatched {
		s.Unmatched = append(s.Unmatched, storedUnmatched(u))
	}
	return s
}

// observation is the reverse of store.
func (s storedObservation) observation() (plan.Observation, error) {
	o := plan.Observation{At: s.At, Queue: s.Queue}
	budget := maxIndexes
	if s.Until != nil {
		o.Until = *s.Until
	}
	for _, d := range s.Jobs {
		o.Jobs = append(o.Jobs, d.demand())
	}
	for _, g := range s.Idle {
		jobs, err := readIndexes(g.Jobs, &budget)
		if err != nil {
			return o, fmt.Errorf("idle agents: %w", err)
		}
		o.Idle = append(o.Idle, plan.IdleAgents{Agents: g.Agents, Overlay: g.Overlay, Replacing: g.Replacing, Jobs: jobs})
	}
	for _, x := range s.Overlays {
		supply := plan.Supply{
			Overlay: x.Overlay, WrongTags: x.WrongTags, Busy: x.Busy, QueueBusy: x.QueueBusy,
			Own: x.Own, Reusable: x.Reusable, Stopping: x.Stopping, OtherQueue: x.OtherQueue, OtherFleets: x.OtherFleets,
			MaxJobs: x.MaxJobs,
		}
		if y := x.Suspended; y != nil {
			supply.Suspended = plan.Suspension{Code: plan.SuspensionCode(y.Code), Queue: y.Queue, Cluster: y.Cluster, NextProbe: y.NextProbe, Finding: y.Finding}
		}
		for id, seen := range x.Dispatches {
			registered, err := readIndexes(seen.Registered, &budget)
			if err != nil {
				return o, fmt.Errorf("dispatch %q: %w", id, err)
			}
			if supply.Dispatches == nil {
				supply.Dispatches = map[string]plan.Seen{}
			}
			supply.Dispatches[id] = plan.Seen{
				Registered: registered, FirstAt: seen.FirstAt, RegisteredAt: seen.RegisteredAt, StartupTimes: seen.StartupTimes,
				HadJob: seen.HadJob, Connected: seen.Connected, WrongTags: seen.WrongTags,
			}
		}
		for id, x := range x.OtherTags {
			jobs, err := readIndexes(x.Jobs, &budget)
			if err != nil {
				return o, fmt.Errorf("dispatch %q: %w", id, err)
			}
			if supply.OtherTags == nil {
				supply.OtherTags = map[string]plan.OtherTags{}
			}
			supply.OtherTags[id] = plan.OtherTags{Jobs: jobs, Spare: x.Spare}
		}
		o.Overlays = append(o.Overlays, supply)
	}
	for _, u := range s.Unmatched {
		o.Unmatched = append(o.Unmatched, plan.Unmatched(u))
	}
	return o, nil
}
