package plan

import (
	"slices"
	"strconv"
	"strings"
)

// Tag keys that muster gives its agents, beside the queue and the policy's own.
const (
	TagQueue    = "queue"
	TagDispatch = "dispatch"
	TagIndex    = "index"
	TagOverlay  = "overlay"
)

// Register remembers which indexes of which dispatches Buildkite has ever
// seen. It only saves time: what a restart loses is found again from Buildkite,
// or costs at most the rest of a lease. The zero value is empty and ready.
type Register struct{ seen map[string]*entry }

// entry is what is known of one dispatch.
type entry struct {
	indexes Indexes
	absent  int // how many times in a row Keep found it in no overlay
}

// Note adds every agent the snapshot shows: the connected ones, and those known
// from the jobs they ran.
func (r *Register) Note(s Snapshot) {
	for _, a := range s.Agents {
		r.note(a.Tags)
	}
	for _, g := range s.Sightings {
		r.note(g.Tags)
	}
}

func (r *Register) note(tags []string) {
	id, ok := tagValue(tags, TagDispatch)
	if !ok {
		return
	}
	text, _ := tagValue(tags, TagIndex)
	index, err := strconv.Atoi(text)
	if err != nil {
		return
	}
	if r.seen == nil {
		r.seen = map[string]*entry{}
	}
	if r.seen[id] == nil {
		r.seen[id] = &entry{}
	}
	r.seen[id].indexes.Add(index)
}

// Keep forgets dispatches that are in none of the overlays, and were not the
// time before either: an agent may be seen before the commit that ordered it is.
func (r *Register) Keep(overlays []Overlay) {
	live := map[string]bool{}
	for _, o := range overlays {
		for _, d := range o.Dispatches {
			live[d.ID] = true
		}
	}
	for id, e := range r.seen {
		switch {
		case live[id]:
			e.absent = 0
		case e.absent > 0:
			delete(r.seen, id)
		default:
			e.absent++
		}
	}
}

// Seen returns the indexes of a dispatch that were seen.
func (r *Register) Seen(id string) Indexes {
	if s := r.seen[id]; s != nil {
		return Indexes{words: slices.Clone(s.indexes.words)}
	}
	return Indexes{}
}

// tagValue returns the value of the first tag with the key.
func tagValue(tags []string, key string) (string, bool) {
	for _, t := range tags {
		if v, ok := strings.CutPrefix(t, key); ok && strings.HasPrefix(v, "=") {
			return v[1:], true
		}
	}
	return "", false
}
