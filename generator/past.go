package generator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"muster/generator/manifest"
	"muster/generator/plan"
	"muster/gitops/branch"
	"muster/gitops/ledger"
)

// answer is what the log says that a dispatch was when it was ordered, or why that
// is not known.
type answer struct {
	dispatch     plan.Dispatch
	content      []byte
	file, commit string
	err          error
	until        time.Time // an error is asked about again then
}

// errNotOrdered says that the log has no commit that ordered a dispatch.
var errNotOrdered = errors.New("no commit of muster's that ordered it is in the log")

const (
	// originalsDeep is how many commits are searched for the one that ordered a
	// dispatch.
	originalsDeep = 2000
	// becameDeep is how many are searched for what became of one.
	becameDeep = 1000
	// startDeep is how many are searched for what others ordered.
	startDeep = 256
	// askAgain is how long an answer that failed stands.
	askAgain = time.Minute
	// logPatience is how long ticks fail because nothing more of what others have pushed
	// can be read. A server that is away for a while is back by then; a log that nobody
	// can read must not end the ordering of agents.
	logPatience = 10 * time.Minute
	// mostKept and largestKept bound the files that are kept from try to try.
	mostKept, largestKept = 1000, 64 << 10
)

// original returns a dispatch as it was ordered.
func (g *Generator) original(ctx context.Context, tip branch.Tip, id string) answer {
	now := g.cfg.Clock.Now()
	if a, ok := g.answers[id]; ok && (a.err == nil || now.Before(a.until)) {
		return a
	}
	a := g.findOriginal(ctx, tip, id)
	if errors.Is(a.err, branch.ErrMoved) {
		return a // which says nothing of the dispatch
	}
	if a.err != nil {
		a.until = now.Add(askAgain)
		if errors.Is(a.err, errNotOrdered) {
			a.until = now.Add(time.Hour)
		}
	}
	if g.answers == nil {
		g.answers = map[string]answer{}
	}
	g.answers[id] = a
	return a
}

func (g *Generator) findOriginal(ctx context.Context, tip branch.Tip, id string) answer {
	history, ok := g.cfg.Repository.(History)
	if !ok {
		return answer{err: errNoHistory}
	}
	x, known := g.ordered[id]
	if !known || x.tried {
		if g.orders == nil {
			g.orders = readOrders(ctx, history, tip)
		}
		if x, known = g.orders.of[id]; !known {
			return answer{err: cmp.Or(g.orders.err, errNotOrdered)}
		}
	}
	content, err := history.File(ctx, x.commit, x.file)
	if err != nil {
		return answer{err: fmt.Errorf("commit %.12s: %w", x.commit, err)}
	}
	d, err := manifest.Original(x.file, content)
	return answer{dispatch: d, content: content, file: x.file, commit: x.commit, err: err}
}

// orders are the file and the commit of each order in the log of the tip. The log is
// read once in a look, however many unknown dispatches the overlays hold.
type orders struct {
	of  map[string]ordered
	err error // reading came to an end before its time
}

func readOrders(ctx context.Context, history History, tip branch.Tip) *orders {
	all := &orders{of: map[string]ordered{}}
	for r, err := range ledger.Read(history.Commits(ctx, tip.Commit, branch.Limit{Commits: originalsDeep})) {
		if err != nil {
			all.err = err
			break
		}
		if r.Entry == nil || r.Entry.Kind != ledger.Dispatch {
			continue
		}
		for _, id := range r.Entry.Dispatches {
			if _, later := all.of[id]; !later {
				all.of[id] = ordered{file: dispatchFile(r.Entry.Overlay, id), commit: r.Entry.Commit}
			}
		}
	}
	return all
}

// became says which of the dispatches that are gone muster has retired, or has not
// pushed at all.
func (g *Generator) became(ctx context.Context, tip branch.Tip, gone []ordered) (map[string]bool, error) {
	retired := map[string]bool{}
	history, ok := g.cfg.Repository.(History)
	if !ok { // an other writer's retirement cannot be told from a deletion
		for _, x := range gone {
			retired[x.ID] = true
		}
		return retired, nil
	}
	landed, open := map[string]bool{}, map[string]bool{}
	for _, x := range gone {
		open[x.commit] = true
	}
	for r, err := range ledger.Read(history.Commits(ctx, tip.Commit, branch.Limit{Commits: becameDeep})) {
		if err != nil {
			return nil, err
		}
		if delete(open, r.Commit.ID); len(open) == 0 {
			break
		}
		if r.Entry == nil {
			continue
		}
		for _, id := range r.Entry.Dispatches {
			switch r.Entry.Kind {
			case ledger.Dispatch:
				landed[id] = true
			case ledger.Retire:
				retired[id] = true
			case ledger.Repair:
			}
		}
	}
	for _, x := range gone {
		retired[x.ID] = retired[x.ID] || x.tried && !landed[x.ID]
	}
	return retired, nil
}

// pushed is what the log says of the commits since the last look, or of those before
// this process began.
type pushed struct {
	// others are the commits of others, the newest first; after is how many of them
	// came after a dispatch was ordered, where these commits order it.
	others []string
	after  map[string]int
	// settled are the dispatches of which the log says enough: they are in git, or were
	// retired, or looked at.
	settled map[string]bool
	retired map[string]bool
	repairs map[string][]string // by overlay
	// reached: they are all commits since the last look.
	reached bool
}

// readLog takes up what was pushed since the last look, or before this process began.
// To decide without it could order again what another muster has ordered and a person
// has just taken back. So the tick fails where the log cannot be read, until that has
// lasted for logPatience.
func (g *Generator) readLog(ctx context.Context, tip branch.Tip, fleet []manifest.Overlay, now time.Time) error {
	if g.scanned == tip.Commit {
		return nil
	}
	before := len(g.files)
	err := g.rememberLog(ctx, tip, fleet, now)
	if err == nil {
		g.scanned, g.unreadSince, g.files = tip.Commit, time.Time{}, nil
		return nil
	}
	if g.unreadSince.IsZero() || len(g.files) > before { // it goes on
		g.unreadSince = now
	}
	if ctx.Err() == nil && now.Sub(g.unreadSince) >= logPatience {
		g.cfg.Log.Warn("the log of the branch cannot be read: what others have ordered and is deleted again does not count", "since", g.unreadSince, "err", err)
		return nil
	}
	return fmt.Errorf("fleet repository: what was pushed since the last look: %w", err)
}

// pastFile is a file as it was at a past commit, or that it was not there.
type pastFile struct {
	content []byte
	err     error
}

// file reads a file of a past commit. What was read is kept until the log is read to
// its end: where one request in ten fails, no try would otherwise come through.
func (g *Generator) file(ctx context.Context, history History, commit, name string) ([]byte, error) {
	key := commit + ":" + name
	if f, ok := g.files[key]; ok {
		return f.content, f.err
	}
	content, err := history.File(ctx, commit, name)
	if gone := errors.Is(err, fs.ErrNotExist); (err == nil || gone) && len(content) <= largestKept && len(g.files) < mostKept {
		if g.files == nil {
			g.files = map[string]pastFile{}
		}
		g.files[key] = pastFile{content, err}
	}
	return content, err
}

// rememberLog finds what was ordered by others since the last tip, or before this
// process began, is not retired, and is not in git any more: a person was faster than
// this look. It reads nothing where the tip is what this process has left.
func (g *Generator) rememberLog(ctx context.Context, tip branch.Tip, fleet []manifest.Overlay, now time.Time) error {
	history, ok := g.cfg.Repository.(History)
	if !ok {
		return nil
	}
	p := pushed{after: map[string]int{}, settled: map[string]bool{}, retired: map[string]bool{}, repairs: map[string][]string{}}
	for i := range fleet {
		for _, d := range fleet[i].Dispatches {
			p.settled[d.ID] = true
		}
	}
	intact := maps.Clone(p.settled)
	for i := range fleet {
		for _, e := range fleet[i].Edits() { // what they were has to be known
			delete(p.settled, e.ID)
			delete(intact, e.ID)
		}
	}
	since := now.Add(-manifest.LongestLease - plan.Grace) // whatever the policies say now
	line := tip.Commit                                    // what comes next where each commit has one before it
	for r, err := range ledger.Read(history.Commits(ctx, tip.Commit, branch.Limit{Commits: startDeep})) {
		if err != nil {
			return err
		}
		if p.reached = r.Commit.ID == g.scanned; p.reached {
			break
		}
		switch {
		case r.Entry == nil:
			p.others = append(p.others, r.Commit.ID)
		case r.Entry.At.Before(since): // by muster's clock; those of others may show anything
			return g.rememberVersions(ctx, history, &p, intact)
		default:
			if err := g.rememberEntry(ctx, history, r.Entry, &p); err != nil {
				return err
			}
		}
		// A commit more may be a request more, beside those who push all the time.
		if line = before(line, r.Commit); line != "" && line == g.scanned {
			p.reached = true
			break
		}
	}
	return g.rememberVersions(ctx, history, &p, intact)
}

// before is the one commit before a commit that was next in line; empty where it was not,
// or has none or several before it.
func before(line string, c branch.Commit) string {
	if c.ID != line || len(c.Parents) != 1 {
		return ""
	}
	return c.Parents[0]
}

// rememberEntry takes up one commit of a muster.
func (g *Generator) rememberEntry(ctx context.Context, history History, e *ledger.Entry, p *pushed) error {
	if e.Kind == ledger.Repair {
		p.repairs[e.Overlay] = append(p.repairs[e.Overlay], e.Commit)
	}
	for _, id := range e.Dispatches {
		switch e.Kind {
		case ledger.Dispatch:
			p.after[id] = len(p.others)
			if p.retired[id] {
				g.unseen(ctx, history, e, id)
			}
			if !p.settled[id] && !g.knows(id) {
				if err := g.rememberOne(ctx, history, e, id, p.repairs[e.Overlay]); err != nil {
					return err
				}
			}
		case ledger.Retire:
			p.retired[id] = true
		case ledger.Repair:
		}
		p.settled[id] = true // what became of it is known
	}
	return nil
}

// rememberVersions lets count, of what is on order and not intact at the tip, what
// others' commits made of it in between: a syncer may have made a Job of any version.
func (g *Generator) rememberVersions(ctx context.Context, history History, p *pushed, intact map[string]bool) error {
	for _, id := range slices.Sorted(maps.Keys(g.ordered)) {
		x := g.ordered[id]
		later, ordered := p.after[id]
		if !ordered && p.reached {
			later = len(p.others)
		}
		if intact[id] || p.retired[id] || x.Withdrawn {
			continue
		}
		for _, commit := range p.others[:later] {
			content, err := g.file(ctx, history, commit, x.file)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return fmt.Errorf("dispatch %s as it was in commit %.12s: %w", id, commit, err)
			}
			x.Dispatch = manifest.Larger(x.Dispatch, manifest.Rough(id, content))
		}
		g.ordered[id] = x
	}
	return nil
}

func (g *Generator) knows(id string) bool {
	_, known := g.ordered[id]
	return known
}

// rememberOne remembers a dispatch that is gone, unless one of the repairs since had
// withdrawn it: then it was given up.
func (g *Generator) rememberOne(ctx context.Context, history History, e *ledger.Entry, id string, repairs []string) error {
	for _, commit := range repairs {
		_, err := g.file(ctx, history, commit, withdrawnFile(e.Overlay, id))
		if err == nil {
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("what commit %.12s withdrew: %w", commit, err)
		}
	}
	file := dispatchFile(e.Overlay, id)
	content, err := g.file(ctx, history, e.Commit, file)
	if errors.Is(err, fs.ErrNotExist) { // the commit's message says what it did not do
		g.cfg.Log.Debug("a dispatch of the log is not in its commit", "dispatch", id, "commit", e.Commit)
		return nil
	}
	if err != nil {
		return fmt.Errorf("dispatch %s of commit %.12s: %w", id, e.Commit, err)
	}
	if d, err := manifest.Original(file, content); err == nil {
		g.ordered[id] = ordered{Dispatch: d, overlay: e.Overlay, file: file, commit: e.Commit}
	}
	return nil
}
