// Package replay makes decisions of the past again, from what git has of them: the
// files of the commit that was decided on, and the observation in the trailers.
//
//	log ──Push.Add──▶ Push: the commits of one tick ──Config.Decide──▶ Result
//
// The decision is made by [plan.Decide], as it was then; nothing is worked out a second
// way. What git does not have is said as a difference: see [Result.Differences].
package replay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strings"

	"muster/generator/manifest"
	"muster/generator/plan"
	"muster/gitops/ledger"
)

// Config says where the files of the past come from. All fields are needed.
type Config struct {
	// Overlays is the directory of overlays, as in "overlays".
	Overlays string
	// Loader reads the overlays.
	Loader *manifest.Loader
	// Tree returns the files of a past commit. What is in dirs will be read.
	Tree func(ctx context.Context, commit string, dirs []string) (fs.FS, error)
}

// Push are the commits that one tick of muster's pushed together, one for each act, the
// newest first. All of them were decided on the parent of the last. The zero value has
// none.
type Push struct {
	Records []ledger.Record
}

// Add takes the next record of a log, which must be newest first, if it belongs to the
// push, and reports whether it does. Into an empty one every commit of muster's goes.
func (p *Push) Add(r ledger.Record) bool {
	if r.Entry == nil {
		return false
	}
	if n := len(p.Records); n > 0 {
		last := p.Records[n-1]
		same := last.Entry.Observation.At.Equal(r.Entry.Observation.At) && last.Entry.Observation.Until.Equal(r.Entry.Observation.Until)
		if !same || last.Entry.Version != r.Entry.Version || len(last.Commit.Parents) == 0 || last.Commit.Parents[0] != r.Commit.ID || p.otherLook(r.Entry) {
			return false
		}
	}
	p.Records = append(p.Records, r)
	return true
}

// otherLook reports whether an entry goes by another look than those of its queue: two
// musters may look in one second.
func (p *Push) otherLook(e *ledger.Entry) bool {
	i := slices.IndexFunc(p.Records, func(r ledger.Record) bool { return r.Entry.Observation.Queue == e.Observation.Queue })
	return i >= 0 && !reflect.DeepEqual(p.Records[i].Entry.Observation, e.Observation)
}

// Result is a decision made again.
type Result struct {
	// Base is the commit that was decided on, and Tree its files, as far as they were
	// needed: those of the overlays that serve the queue, and all outside the directory
	// of overlays.
	Base string
	Tree fs.FS
	// Overlay is the overlay as it was; nil: the commit has none of that name, and there is
	// no decision.
	Overlay *manifest.Overlay
	// Decision is what comes out for the commit's overlay.
	Decision plan.Decision
	// Differences say how the commit is another than the decision, a clause for each;
	// none where it follows from what git has.
	Differences []string
	// Doubtful says that the commit follows, but that not all figures are confirmed: the
	// reasons in the message are others than this muster writes for the decision, or the
	// tick ordered another number of agents. Another version decided, or it went by
	// something that git does not have. The reasons of a repair are not compared.
	Doubtful bool
}

// Decide makes the decision of one commit of a push again. Several ticks of one second
// look like one push: where the commit does not follow from the parent of the last of
// its commits, those of the others are tried. An error is of reading.
func (c Config) Decide(ctx context.Context, p Push, commit int) (Result, error) {
	e := p.Records[commit].Entry
	var best Result
	for last := len(p.Records) - 1; last >= commit; last-- {
		if len(p.Records[last].Commit.Parents) == 0 {
			return Result{Differences: []string{"no commit comes before it, so that there was no overlay to decide on"}}, nil
		}
		r, err := c.decideOn(ctx, p.Records[:last+1], e)
		if err != nil || len(r.Differences) == 0 && !r.Doubtful {
			return r, err
		}
		if last == len(p.Records)-1 || len(r.Differences) < len(best.Differences) {
			best = r
		}
	}
	return best, nil
}

// decideOn makes a decision again as one on the parent of the last of some commits.
func (c Config) decideOn(ctx context.Context, push []ledger.Record, e *ledger.Entry) (Result, error) {
	r := Result{Base: push[len(push)-1].Commit.Parents[0]}
	names := c.serving(e)
	// What was edited by hand counted as the repair left it.
	repairs := map[string]string{}
	for _, x := range push {
		if x.Entry.Kind == ledger.Repair && slices.Contains(names, c.Name(x.Entry.Overlay)) {
			repairs[x.Entry.Overlay] = x.Commit.ID
		}
	}
	tree, overlays, err := c.load(ctx, r.Base, names, repairs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // else there is no directory of overlays
		return r, err
	}
	r.Tree = tree
	name := c.Name(e.Overlay)
	i := slices.IndexFunc(overlays, func(o manifest.Overlay) bool { return o.Name == name })
	if i < 0 {
		r.Differences = []string{fmt.Sprintf("commit %.7s, which it was decided on, has no overlay %q", r.Base, name)}
		return r, nil
	}
	r.Overlay = &overlays[i]
	for _, d := range plan.Decide(r.Base, manifest.Decidable(overlays), e.Observation) {
		if d.Overlay == name {
			r.Decision = d
			r.Differences = differences(e, d)
			r.Doubtful = ordered(push, e.Overlay) != d.Sum.Dispatch || e.Kind != ledger.Repair && said(e) != text(e, d)
			return r, nil
		}
	}
	r.Differences = []string{fmt.Sprintf("its observation is of the queue %q, and the policy it was decided by serves %q", e.Observation.Queue, r.Overlay.Policy.Queue)}
	return r, nil
}

// ordered is how many agents a push orders for an overlay.
func ordered(push []ledger.Record, overlay string) int {
	n := 0
	for _, x := range push {
		if x.Entry.Overlay == overlay && x.Entry.Kind == ledger.Dispatch {
			n += x.Entry.Agents
		}
	}
	return n
}

// said is what a commit says to people, and text what this muster says of a decision.
func said(e *ledger.Entry) string { return strings.TrimSpace(e.Subject + "\n\n" + e.Prose) }

func text(e *ledger.Entry, d plan.Decision) string {
	return strings.TrimSpace(ledger.Text(ledger.Act{Kind: e.Kind, Path: e.Overlay, Decision: d}))
}

// Load reads overlays by their names as they were at a commit, all where none is named. It
// returns its files, as in a [Result], and those of the overlays that are there.
func (c Config) Load(ctx context.Context, commit string, names []string) (fs.FS, []manifest.Overlay, error) {
	return c.load(ctx, commit, names, nil)
}

// load is Load with overlays, by their directories, from other commits.
func (c Config) load(ctx context.Context, commit string, names []string, instead map[string]string) (fs.FS, []manifest.Overlay, error) {
	var dirs []string
	for _, name := range names {
		dirs = append(dirs, path.Join(c.Overlays, name))
	}
	ahead := append(slices.Clone(dirs), c.base())
	if len(names) == 0 {
		ahead = append(ahead, path.Clean(c.Overlays))
	}
	tree, err := c.Tree(ctx, commit, ahead)
	if err != nil {
		return nil, nil, err
	}
	if len(names) == 0 {
		overlays, err := c.Loader.LoadContext(ctx, tree)
		return tree, overlays, err
	}
	f := files{tree: tree, top: path.Clean(c.Overlays), dirs: dirs, instead: map[string]fs.FS{}}
	for dir, commit := range instead {
		if f.instead[dir], err = c.Tree(ctx, commit, []string{dir}); err != nil {
			return nil, nil, err
		}
	}
	overlays, err := c.Loader.LoadContext(ctx, f)
	return f, overlays, err
}

func (c Config) base() string { return path.Join(path.Dir(path.Clean(c.Overlays)), "base") }

// Name is the name of the overlay in a directory.
func (c Config) Name(dir string) string { return strings.TrimPrefix(dir, path.Clean(c.Overlays)+"/") }

// serving are the names of the overlays that an entry is about: its own, and those that
// its observation says serve the queue.
func (c Config) serving(e *ledger.Entry) []string {
	names := []string{c.Name(e.Overlay)}
	for _, s := range e.Observation.Overlays {
		if clean := path.Clean(s.Overlay); clean == s.Overlay && clean != "." && !path.IsAbs(clean) && !strings.HasPrefix(clean, "..") {
			names = append(names, clean)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// differences are those between what a commit says and a decision.
func differences(e *ledger.Entry, d plan.Decision) []string {
	again, agents := ledger.Act{Kind: e.Kind, Decision: d}.Dispatches()
	slices.Sort(again)
	switch ids := slices.Sorted(slices.Values(e.Dispatches)); {
	case e.Kind == ledger.Repair: // it is about files, which nobody decides on
		return nil
	case e.Kind == ledger.Dispatch && agents != e.Agents:
		return []string{fmt.Sprintf("it orders %d agents, and made again the decision orders %d", e.Agents, agents)}
	case e.BusyUnknown && len(ids) == len(again) && agents == e.Agents: // 0.2.0 had other names
		return nil
	case !slices.Equal(ids, again):
		return []string{fmt.Sprintf("it is about %s, and made again the decision is about %s", some(ids), some(again))}
	case agents != e.Agents:
		return []string{fmt.Sprintf("its dispatches have %d agents, and it says %d", agents, e.Agents)}
	}
	return nil
}

// some names the first of dispatches.
func some(ids []string) string {
	const most = 3
	switch more := len(ids) - most; {
	case len(ids) == 0:
		return "no dispatch"
	case more > 0:
		return fmt.Sprintf("%s and %d more", strings.Join(ids[:most], ", "), more)
	}
	return strings.Join(ids, ", ")
}
