package generator

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"muster/generator/ledger"
	"muster/generator/manifest"
	"muster/generator/plan"
	"muster/generator/policy"
	"muster/gitops/branch"
)

// pastLog reads the log of the branch, and keeps what was read while it may be needed again.
type pastLog struct {
	history branch.History
	clock   Clock
	log     *slog.Logger
	files   map[string]pastFile // read in tries that failed later
	answers map[string]answer   // what dispatches were, by ID
	orders  *orders             // during a tick
	oldest  time.Time           // as far back as orders are read
}

// begin begins a tick, in which orders are read as far back as oldest; end ends it.
func (l *pastLog) begin(oldest time.Time) { l.orders, l.oldest = nil, oldest }

func (l *pastLog) end() { l.orders = nil }

// done drops the files that were read: the log was read to its end.
func (l *pastLog) done() { l.files = nil }

// forget drops the answers to what was not asked for again.
func (l *pastLog) forget(asked map[string]bool) {
	maps.DeleteFunc(l.answers, func(id string, _ answer) bool { return !asked[id] })
}

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

// errShallow is returned if the server does not have all of the history that is needed.
var errShallow = errors.New("the repository on the server is shallow: complete it there (git fetch --unshallow)")

const (
	// logAge is how far back the log is read: an hour more than an order can be in flight,
	// because clocks differ and a commit is made after its observation.
	logAge = policy.LongestLease + plan.Grace + time.Hour
	// versionsTogether is how many commits of others are compared at once.
	versionsTogether = 256
	// filesTogether is how many of their files are, fewer than are listed of one commit.
	filesTogether = 100
	// askAgain is how long an answer that failed stands.
	askAgain = time.Minute
	// mostKept and largestKept bound the files that are kept from try to try.
	mostKept, largestKept = 1000, 64 << 10
)

// recent yields the log of a commit, newest first. On each line of the history it stops at
// the first commit of muster's whose date and observation are both before since: all that
// muster did before that commit is older still. Other people's commits stop nothing,
// because their dates can be anything. The commit known and its ancestors are left out. An
// error ends the log; [errShallow] is yielded only if known is empty.
func recent(ctx context.Context, history branch.History, from, known string, since time.Time) iter.Seq2[ledger.Record, error] {
	const open, shut, read = 1, 2, 3
	return func(yield func(ledger.Record, error) bool) {
		state, left := map[[16]byte]byte{short(known): shut, short(from): open}, 1
		for r, err := range ledger.Read(history.Commits(ctx, from, branch.Limit{Known: known})) {
			if err != nil {
				yield(r, err)
				return
			}
			id := short(r.Commit.ID)
			if state[id] == open {
				left--
			}
			over := state[id] == shut || r.Entry != nil && r.Entry.At.Before(since) && r.Entry.Observation.At.Before(since)
			for _, parent := range r.Commit.Parents {
				p := short(parent)
				switch {
				case over && state[p] == open:
					left--
					state[p] = shut
				case over && state[p] == 0:
					state[p] = shut
				case !over && state[p] == 0:
					left++
					state[p] = open
				}
			}
			if state[id] = read; !over && !yield(r, nil) || left == 0 {
				return
			}
		}
		if known == "" {
			yield(ledger.Record{}, errShallow)
		}
	}
}

// short returns a digest of 16 bytes of a commit's identifier.
func short(commit string) [16]byte {
	sum := sha256.Sum256([]byte(commit))
	return [16]byte(sum[:16])
}

// original returns a dispatch as it was ordered.
func (l *pastLog) original(ctx context.Context, tip branch.Tip, id string, ordered map[string]ordered) answer {
	now := l.clock.Now()
	if a, ok := l.answers[id]; ok && (a.err == nil || now.Before(a.until)) {
		return a
	}
	a := l.findOriginal(ctx, tip, id, ordered)
	if errors.Is(a.err, branch.ErrMoved) {
		return a // which says nothing of the dispatch
	}
	if a.err != nil {
		a.until = now.Add(askAgain)
		if errors.Is(a.err, errNotOrdered) {
			a.until = now.Add(time.Hour)
		}
	}
	if l.answers == nil {
		l.answers = map[string]answer{}
	}
	l.answers[id] = a
	return a
}

func (l *pastLog) findOriginal(ctx context.Context, tip branch.Tip, id string, ordered map[string]ordered) answer {
	x, known := ordered[id]
	if !known {
		if l.orders == nil {
			l.orders = readOrders(ctx, l.history, tip, l.oldest)
		}
		if x, known = l.orders.of[id]; !known {
			return answer{err: cmp.Or(l.orders.err, errNotOrdered)}
		}
	}
	content, err := l.history.File(ctx, x.commit, x.file)
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

func readOrders(ctx context.Context, history branch.History, tip branch.Tip, since time.Time) *orders {
	all := &orders{of: map[string]ordered{}}
	for r, err := range recent(ctx, history, tip.Commit, "", since) {
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

// pushed is what the log says of the commits since the last look, or of those before
// this process began.
type pushed struct {
	known string    // the head of the last tick; empty if there was none
	since time.Time // what was done before it does not matter any more
	// others is the number of commits that are not muster's.
	others int
	// settled are the dispatches of which the log says enough: they are in git, or were
	// retired, or looked at.
	settled map[string]bool
	retired map[string]bool
	repairs map[string][]string // by overlay
}

// readLog reads what was pushed since the last tick, or before this process began. A
// decision without it could repeat an order of another muster that a person has just
// deleted. So the tick fails if the log cannot be read.
func (dr *drift) readLog(ctx context.Context, tip branch.Tip, fleet []manifest.Overlay, now time.Time) error {
	if dr.scanned == tip.Commit {
		return nil
	}
	if err := dr.rememberLog(ctx, tip, fleet, pushed{known: dr.scanned, since: now.Add(-logAge)}); err != nil {
		return fmt.Errorf("fleet repository: reading the commits since the last tick: %w (nothing is ordered until the history can be read. "+
			"If the history is lost, stop muster for %s and push the files as a first commit)", err, policy.LongestLease)
	}
	dr.scanned = tip.Commit
	dr.past.done()
	return nil
}

// pastFile is a file as it was at a past commit, or that it was not there.
type pastFile struct {
	content []byte
	err     error
}

// file reads a file of a past commit. What was read is kept until the log is read to
// its end: where one request in ten fails, no try would otherwise come through.
func (l *pastLog) file(ctx context.Context, commit, name string) ([]byte, error) {
	key := commit + ":" + name
	if f, ok := l.files[key]; ok {
		return f.content, f.err
	}
	content, err := l.history.File(ctx, commit, name)
	if gone := errors.Is(err, fs.ErrNotExist); (err == nil || gone) && len(content) <= largestKept && len(l.files) < mostKept {
		if l.files == nil {
			l.files = map[string]pastFile{}
		}
		l.files[key] = pastFile{content, err}
	}
	return content, err
}

// rememberLog finds what was ordered by others since the last tip, or before this
// process began, is not retired, and is not in git any more: a person was faster than
// this look.
func (dr *drift) rememberLog(ctx context.Context, tip branch.Tip, fleet []manifest.Overlay, p pushed) error {
	p.others, p.settled, p.retired, p.repairs = 0, map[string]bool{}, map[string]bool{}, map[string][]string{}
	for i := range fleet {
		for _, d := range fleet[i].Dispatches {
			p.settled[d.ID] = true
		}
	}
	for i := range fleet {
		for _, e := range fleet[i].Edits() { // what they were has to be known
			delete(p.settled, e.ID)
		}
	}
	intact, reached := maps.Clone(p.settled), p.known == ""
	for r, err := range recent(ctx, dr.past.history, tip.Commit, p.known, p.since) {
		if err != nil {
			return err
		}
		reached = reached || slices.Contains(r.Commit.Parents, p.known)
		if r.Entry == nil {
			p.others++
		} else if err := dr.rememberEntry(ctx, r.Entry, &p); err != nil {
			return err
		}
	}
	if !reached { // the branch was reset, or replaced
		p.known = ""
		return dr.rememberLog(ctx, tip, fleet, p)
	}
	if err := dr.rememberVersions(ctx, tip, &p, intact); err != nil {
		return err
	}
	if dr.retired == nil {
		dr.retired = map[string]bool{}
	}
	maps.Copy(dr.retired, p.retired)
	return nil
}

// rememberEntry takes up one commit of a muster.
func (dr *drift) rememberEntry(ctx context.Context, e *ledger.Entry, p *pushed) error {
	if e.Kind == ledger.Repair {
		p.repairs[e.Overlay] = append(p.repairs[e.Overlay], e.Commit)
	}
	for _, id := range e.Dispatches {
		switch e.Kind {
		case ledger.Dispatch:
			if p.retired[id] && p.known != "" {
				dr.unseen(ctx, e, id)
			}
			if !p.settled[id] && !dr.knows(id) {
				if err := dr.rememberOne(ctx, e, id, p.repairs[e.Overlay]); err != nil {
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

// rememberVersions counts each order that is not intact at the head by the largest version
// that others' commits made of it: a syncer may have created a Job from any version. It
// reads the log a second time, because few logs have such an order.
func (dr *drift) rememberVersions(ctx context.Context, tip branch.Tip, p *pushed, intact map[string]bool) error {
	wanted := map[string]string{} // identifiers, by file
	for id, x := range dr.ordered {
		if !intact[id] && !p.retired[id] && !x.Withdrawn {
			wanted[x.file] = id
		}
	}
	if p.others == 0 || len(wanted) == 0 {
		return nil
	}
	var some []branch.Commit
	for r, err := range recent(ctx, dr.past.history, tip.Commit, p.known, p.since) {
		if err != nil {
			return err
		}
		if r.Entry == nil {
			some = append(some, branch.Commit{ID: r.Commit.ID, Parents: r.Commit.Parents, Tree: r.Commit.Tree})
		}
		if len(some) == versionsTogether {
			if err := dr.countVersions(ctx, some, wanted); err != nil {
				return err
			}
			some = some[:0]
		}
		if r.Entry == nil || r.Entry.Kind != ledger.Dispatch {
			continue
		}
		for _, id := range r.Entry.Dispatches { // no commit before it has the file
			if file := dispatchFile(r.Entry.Overlay, id); wanted[file] == id {
				if err := dr.countVersions(ctx, some, wanted); err != nil {
					return err
				}
				some = some[:0]
				delete(wanted, file)
			}
		}
		if len(wanted) == 0 {
			return nil
		}
	}
	return dr.countVersions(ctx, some, wanted)
}

// countVersions counts dispatches by the versions of their files in commits.
func (dr *drift) countVersions(ctx context.Context, commits []branch.Commit, wanted map[string]string) error {
	if len(commits) == 0 {
		return nil
	}
	for files := range slices.Chunk(slices.Sorted(maps.Keys(wanted)), filesTogether) {
		look := branch.Look{Below: files, Content: func(string) bool { return true }}
		edits, err := dr.past.history.Edits(ctx, commits, nil, look)
		if err != nil {
			return err
		}
		for i, e := range edits {
			if e.Unknown != nil { // it cannot be compared with the one before it
				for _, file := range files {
					e.Files = append(e.Files, branch.Edit{Path: file})
				}
			}
			for _, f := range e.Files {
				if err := dr.countVersion(ctx, commits[i].ID, f, wanted[f.Path]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// countVersion counts a dispatch by the version of its file in a commit, if that is larger.
func (dr *drift) countVersion(ctx context.Context, commit string, f branch.Edit, id string) error {
	x, known := dr.ordered[id]
	if f.Removed || !known {
		return nil
	}
	if f.After == nil { // too large, or not compared
		content, err := dr.past.file(ctx, commit, f.Path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("dispatch %s as it was in commit %.12s: %w", id, commit, err)
		}
		f.After = content
	}
	x.Dispatch = manifest.Larger(x.Dispatch, manifest.Rough(id, f.After))
	dr.ordered[id] = x
	return nil
}

func (dr *drift) knows(id string) bool {
	_, known := dr.ordered[id]
	return known
}

// rememberOne remembers a dispatch that is gone, unless one of the repairs since had
// withdrawn it: then it was given up.
func (dr *drift) rememberOne(ctx context.Context, e *ledger.Entry, id string, repairs []string) error {
	for _, commit := range repairs {
		_, err := dr.past.file(ctx, commit, withdrawnFile(e.Overlay, id))
		if err == nil {
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("what commit %.12s withdrew: %w", commit, err)
		}
	}
	file := dispatchFile(e.Overlay, id)
	content, err := dr.past.file(ctx, e.Commit, file)
	if errors.Is(err, fs.ErrNotExist) { // the commit's message says what it did not do
		dr.log.Debug("a dispatch of the log is not in its commit", "dispatch", id, "commit", e.Commit)
		return nil
	}
	if err != nil {
		return fmt.Errorf("dispatch %s of commit %.12s: %w", id, e.Commit, err)
	}
	if d, err := manifest.Original(file, content); err == nil {
		dr.ordered[id] = ordered{Dispatch: d, overlay: e.Overlay, file: file, commit: e.Commit}
	}
	return nil
}

// suspectsDeep is how many commits are searched for what made a repair
// necessary.
const suspectsDeep = 50

// suspect notes in every repair the commits of others since muster's last commit
// to the overlay. The log is read once, and only if there is a repair. That it
// cannot be read is noted, and keeps nothing from being done.
func (l *pastLog) suspect(ctx context.Context, tip branch.Tip, acts []ledger.Act) {
	var log []ledger.Record
	var failed, read bool
	for i := range acts {
		a := &acts[i]
		if a.Kind != ledger.Repair {
			continue
		}
		if !read {
			var err error
			log, err = l.lately(ctx, tip)
			failed, read = err != nil, true
			if failed {
				l.log.Debug("the log of the branch cannot be read", "err", err)
			}
		}
		a.Suspects, a.SuspectsUnknown = suspects(log, a.Path), failed
	}
}

// lately returns the last commits of the branch.
func (l *pastLog) lately(ctx context.Context, tip branch.Tip) ([]ledger.Record, error) {
	var log []ledger.Record
	for r, err := range ledger.Read(l.history.Commits(ctx, tip.Commit, branch.Limit{Commits: suspectsDeep})) {
		if err != nil {
			return nil, err
		}
		log = append(log, r)
	}
	return log, nil
}

// suspects are the commits of others down to muster's last one to an overlay.
func suspects(log []ledger.Record, overlay string) []ledger.Suspect {
	var all []ledger.Suspect
	for _, r := range log {
		switch {
		case r.Damage != nil: // muster's, though it cannot be read
		case r.Entry == nil:
			subject, _, _ := strings.Cut(strings.TrimSpace(r.Commit.Message), "\n")
			all = append(all, ledger.Suspect{Commit: r.Commit.ID, Author: r.Commit.Author, Subject: subject})
		case r.Entry.Overlay == overlay:
			return all
		}
	}
	return all
}
