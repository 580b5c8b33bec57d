package generator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"muster/generator/fleet"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/policy"
	"muster/gitops/branch"
)

// pastLog reads the log of the branch, and caches what may be needed again.
type pastLog struct {
	history  branch.History
	overlays string // directory
	clock    Clock
	log      *slog.Logger
	files    map[string]pastFile // read in tries that failed later
	answers  map[string]answer   // what dispatches were, by ID
	orders   *orders             // during a tick
	oldest   time.Time           // as far back as orders are read
	repairs  map[string]Repair   // the last of each overlay, by path
}

func newPastLog(cfg Config) *pastLog {
	return &pastLog{
		history: cfg.Repository, overlays: cfg.Overlays, clock: cfg.Clock, log: cfg.Log,
		files: map[string]pastFile{}, answers: map[string]answer{}, repairs: map[string]Repair{},
	}
}

// begin begins a tick, which reads orders since oldest; end ends it.
func (l *pastLog) begin(oldest time.Time) { l.orders, l.oldest = nil, oldest }

func (l *pastLog) end() { l.orders = nil }

// noteRepair notes a repair of the overlay with a path.
func (l *pastLog) noteRepair(path string, r Repair) {
	if r.At.After(l.repairs[path].At) {
		l.repairs[path] = r
	}
}

// repairsOf returns the last repair of each overlay, by name.
func (l *pastLog) repairsOf(overlays []fleet.Overlay) map[string]Repair {
	all := map[string]Repair{}
	for _, o := range overlays {
		if r, ok := l.repairs[o.Path]; ok {
			all[o.Name] = r
		}
	}
	return all
}

// done drops the files that were read: the log was read to its end.
func (l *pastLog) done() { l.files = map[string]pastFile{} }

// forget drops the answers to questions that were not repeated.
func (l *pastLog) forget(asked map[string]bool) {
	maps.DeleteFunc(l.answers, func(id string, _ answer) bool { return !asked[id] })
}

// answer is a dispatch as the log contains its order, or the reason why it is unknown.
type answer struct {
	dispatch     plan.Dispatch
	content      []byte
	file, commit string
	err          error
	until        time.Time // time at which an error is retried
}

// errNotOrdered is returned for a dispatch that no commit of the log has ordered.
var errNotOrdered = errors.New("the log has no commit by muster that ordered it")

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
	// retryRead is the time after which a failed read is repeated.
	retryRead = time.Minute
	// commitsKept is how many of its commits to an overlay, without repairs, muster keeps to find a lost
	// state.yaml: repairs remove a damaged one.
	commitsKept = 8
	// maxKept and largestKept bound the files that are kept from try to try.
	maxKept, largestKept = 1000, 64 << 10
)

// since yields the operations of a commit and its ancestors, newest first, up to a time and without those
// of a known commit. An incomplete history ends with [errShallow].
func (l *pastLog) since(ctx context.Context, from, known string, since time.Time) iter.Seq2[ledger.Operation, error] {
	log := ledger.Read(l.overlays, l.history.Commits(ctx, from, branch.Limit{Known: known}))
	return func(yield func(ledger.Operation, error) bool) {
		for o, err := range (ledger.Stop{Since: since, Known: known}).Apply(log) {
			if errors.Is(err, ledger.ErrCut) {
				err = errShallow
			}
			if !yield(o, err) {
				return
			}
		}
	}
}

// original returns a dispatch as it was ordered.
func (l *pastLog) original(ctx context.Context, head branch.Head, id string, ordered map[string]ordered) answer {
	now := l.clock.Now()
	if a, ok := l.answers[id]; ok && (a.err == nil || now.Before(a.until)) {
		return a
	}
	a := l.findOriginal(ctx, head, id, ordered)
	if errors.Is(a.err, branch.ErrMoved) {
		return a // not about the dispatch
	}
	if a.err != nil {
		a.until = now.Add(retryRead)
		if errors.Is(a.err, errNotOrdered) {
			a.until = now.Add(time.Hour)
		}
	}
	l.answers[id] = a
	return a
}

func (l *pastLog) findOriginal(ctx context.Context, head branch.Head, id string, ordered map[string]ordered) answer {
	x, known := ordered[id]
	if !known {
		if l.orders == nil {
			l.orders = l.readOrders(ctx, head)
		}
		if x, known = l.orders.of[id]; !known {
			return answer{err: cmp.Or(l.orders.err, errNotOrdered)}
		}
	}
	content, err := l.history.File(ctx, x.commit, x.file)
	if err != nil {
		return answer{err: fmt.Errorf("commit %.12s: %w", x.commit, err)}
	}
	d, err := fleet.Original(x.file, content)
	return answer{dispatch: d, content: content, file: x.file, commit: x.commit, err: err}
}

// orders are the file and the commit of each order in the log of the branch head. The log is
// read once per try of a tick, regardless of the number of unknown dispatches in the overlays.
type orders struct {
	of  map[string]ordered
	err error // why the log was not read to its end
}

func (l *pastLog) readOrders(ctx context.Context, head branch.Head) *orders {
	all := &orders{of: map[string]ordered{}}
	for r, err := range l.since(ctx, head.Commit, "", l.oldest) {
		if err != nil {
			all.err = err
			break
		}
		if r.Kind != ledger.Dispatch {
			continue
		}
		for _, id := range r.Dispatches() {
			if _, later := all.of[id]; !later {
				all.of[id] = ordered{file: dispatchFile(r.Path, id), commit: r.ID}
			}
		}
	}
	return all
}

// pastFile is a file at a past commit; err is fs.ErrNotExist if the file did not exist.
type pastFile struct {
	content []byte
	err     error
}

// file reads a file of a past commit. It keeps the result until the log has been read to its end:
// if one request in ten fails, no attempt would succeed otherwise.
func (l *pastLog) file(ctx context.Context, commit, name string) ([]byte, error) {
	key := commit + ":" + name
	if f, ok := l.files[key]; ok {
		return f.content, f.err
	}
	content, err := l.history.File(ctx, commit, name)
	if gone := errors.Is(err, fs.ErrNotExist); (err == nil || gone) && len(content) <= largestKept && len(l.files) < maxKept {
		l.files[key] = pastFile{content, err}
	}
	return content, err
}

// suspectsDeep is the number of commits that are searched for the cause of a repair.
const suspectsDeep = 50

// suspect stores in each repair the commits of others since muster's last commit to the overlay. It
// reads the log once, and only if there is a repair. A read error is stored and fails nothing.
func (l *pastLog) suspect(ctx context.Context, head branch.Head, ops []ledger.Draft) {
	repair := func(a ledger.Draft) bool { return a.Kind == ledger.Repair }
	if !slices.ContainsFunc(ops, repair) {
		return
	}
	log, err := l.lately(ctx, head)
	if err != nil {
		l.log.Debug("the log of the branch cannot be read", "err", err)
	}
	for i, a := range ops {
		if repair(a) {
			ops[i].Suspects, ops[i].SuspectsUnknown = suspects(log, a.Path), err != nil
		}
	}
}

// lately returns the last commits of the branch.
func (l *pastLog) lately(ctx context.Context, head branch.Head) ([]ledger.Operation, error) {
	var log []ledger.Operation
	for r, err := range ledger.Read(l.overlays, l.history.Commits(ctx, head.Commit, branch.Limit{Commits: suspectsDeep})) {
		if err != nil {
			return nil, err
		}
		log = append(log, r)
	}
	return log, nil
}

// suspects returns the commits of others since muster's last one to an overlay.
func suspects(log []ledger.Operation, overlay string) []ledger.Suspect {
	var all []ledger.Suspect
	for _, r := range log {
		switch {
		case r.Damage != nil: // muster's, though it cannot be read
		case !r.ByMuster():
			subject, _, _ := strings.Cut(strings.TrimSpace(r.Commit.Message), "\n")
			all = append(all, ledger.Suspect{Commit: r.Commit.ID, Author: r.Commit.Author, Subject: subject})
		case r.Path == overlay:
			return all
		}
	}
	return all
}

// pushed is the content of the log for the commits since the last tick, or for those before
// this process started.
type pushed struct {
	known string    // the head of the last tick; empty before the first tick
	since time.Time // earlier commits are irrelevant
	// others is the number of commits that are not muster's.
	others int
	// settled are the dispatches that need no further log entry: they are in git or have been examined.
	settled map[string]bool
	retired map[string][]string // the overlays that have retired a dispatch, by its ID
	repairs map[string][]string // by overlay
	commits map[string][]string // muster's without repairs, by overlay, the newest first
}

// readLog reads what was pushed since the last tick, or before this process began. A
// decision without it could repeat an order of another muster that a person has just
// deleted. So the tick fails if the log cannot be read.
func (dr *drift) readLog(ctx context.Context, head branch.Head, loaded []fleet.Overlay, now time.Time) error {
	if dr.scanned == head.Commit {
		dr.read = now
		return nil
	}
	since := now.Add(-logAge)
	if dr.scanned == "" && slices.ContainsFunc(loaded, func(o fleet.Overlay) bool { return o.LostState() }) {
		since = since.Add(-policy.LongestUptime) // agents with the lost identity may be connected for that long
	}
	if err := dr.rememberLog(ctx, head, loaded, pushed{known: dr.scanned, since: since}); err != nil {
		return fmt.Errorf("fleet repository: reading the commits since the last tick: %w (nothing is ordered until the history can be read. "+
			"If the history is lost, stop muster for %s and push the files as a first commit)", err, policy.LongestLease)
	}
	dr.scanned, dr.read = head.Commit, now
	dr.past.done()
	return nil
}

// rememberLog finds dispatches in the log since the last head, or before this process started, that
// are neither retired nor in git: a person deleted them before this tick.
func (dr *drift) rememberLog(ctx context.Context, head branch.Head, loaded []fleet.Overlay, p pushed) error {
	p.others, p.settled, p.retired, p.repairs = 0, map[string]bool{}, map[string][]string{}, map[string][]string{}
	p.commits = map[string][]string{}
	inGit := map[string]bool{}
	for i := range loaded {
		for _, d := range loaded[i].Dispatches {
			inGit[d.ID] = true
			p.settled[d.ID] = p.settled[d.ID] || !isCopy(&loaded[i], d)
		}
	}
	for i := range loaded {
		for _, e := range loaded[i].Edits() { // what they were has to be known
			inGit[e.ID] = true
			delete(p.settled, e.ID)
		}
	}
	intact, reached := maps.Clone(p.settled), p.known == ""
	for r, err := range dr.past.since(ctx, head.Commit, p.known, p.since) {
		if err != nil {
			return err
		}
		reached = reached || slices.Contains(r.Commit.Parents, p.known)
		if !r.ByMuster() {
			p.others++
			p.cancel(&r, inGit)
		} else if err := dr.rememberOperation(ctx, &r, loaded, &p); err != nil {
			return err
		}
	}
	if !reached { // the branch was reset, or replaced
		if at := p.since.Add(logAge); at.Sub(dr.read) < logAge/2 { // later, its log may only be longer than what is read
			dr.rewritten = &Rewritten{At: at, From: p.known, To: head.Commit}
		}
		p.known = ""
		return dr.rememberLog(ctx, head, loaded, p)
	}
	if err := dr.rememberVersions(ctx, head, loaded, &p, intact); err != nil {
		return err
	}
	for id, overlays := range p.retired {
		dr.retired[id] = append(dr.retired[id], overlays...)
	}
	for overlay, commits := range p.commits {
		dr.commits[overlay] = append(commits, dr.commits[overlay]...)[:min(commitsKept, len(commits)+len(dr.commits[overlay]))]
	}
	return nil
}

// cancel notes the dispatches that a command cancelled and that are not in git any more: a cancelled one
// counts while its file is in git.
func (p *pushed) cancel(o *ledger.Operation, inGit map[string]bool) {
	if o.Kind != ledger.Cancel {
		return
	}
	for _, id := range o.Dispatches() {
		if !inGit[id] {
			p.retired[id] = append(p.retired[id], o.Path)
		}
	}
}

// rememberOperation reads one commit of a muster.
func (dr *drift) rememberOperation(ctx context.Context, e *ledger.Operation, loaded []fleet.Overlay, p *pushed) error {
	if e.Kind != ledger.Repair && len(p.commits[e.Path]) < commitsKept {
		p.commits[e.Path] = append(p.commits[e.Path], e.ID)
	}
	if e.Kind == ledger.Repair {
		p.repairs[e.Path] = append(p.repairs[e.Path], e.ID)
		dr.past.noteRepair(e.Path, Repair{At: e.At, Subject: e.Subject()})
	}
	for _, id := range e.Dispatches() {
		switch e.Kind {
		case ledger.Dispatch:
			retired := slices.Contains(p.retired[id], e.Path)
			if _, known := dr.ordered[id]; !retired && !known && !p.settled[id] {
				if err := dr.rememberOne(ctx, e, id, p.repairs[e.Path]); err != nil {
					return err
				}
				if x, known := dr.ordered[id]; known && retiredBy(loaded, x, p.retired[id]) {
					delete(dr.ordered, id)
					retired = true
				}
			}
			if retired && p.known != "" {
				dr.unseen(ctx, e, id)
			}
			p.settled[id] = true // its outcome is known
		case ledger.Withdraw, ledger.Retire: // a withdrawn one counts while its file is in git
			p.retired[id] = append(p.retired[id], e.Path)
		case ledger.Repair:
		}
	}
	return nil
}

// isCopy reports whether a dispatch in the directory of a copied overlay is one of the original.
func isCopy(o *fleet.Overlay, d plan.Dispatch) bool {
	id, _ := plan.TagValue(d.Tags, plan.TagIdentity)
	return id != "" && id == o.Identity.CopiedFrom
}

// retiredBy reports whether one of the overlays that have retired a dispatch is the one that ordered it,
// also under another name. A copy of that overlay retires only its copy of the dispatch.
func retiredBy(loaded []fleet.Overlay, x ordered, overlays []string) bool {
	id, _ := plan.TagValue(x.Tags, plan.TagIdentity)
	own := slices.IndexFunc(loaded, func(o fleet.Overlay) bool { return id != "" && o.Identity.ID == id })
	return slices.ContainsFunc(overlays, func(by string) bool {
		if own < 0 || by == x.overlay || by == loaded[own].Path {
			return true
		}
		there := slices.ContainsFunc(loaded, func(o fleet.Overlay) bool { return o.Path == by })
		return !there && x.overlay != loaded[own].Path // a former name
	})
}

// rememberVersions counts each order that is not intact at the head by the largest version
// that others' commits made of it: a syncer may have created a Job from any version. It
// reads the log a second time, because few logs have such an order.
func (dr *drift) rememberVersions(ctx context.Context, head branch.Head, loaded []fleet.Overlay, p *pushed, intact map[string]bool) error {
	wanted := map[string]string{} // identifiers, by file
	for id, x := range dr.ordered {
		if !intact[id] && !retiredBy(loaded, x, p.retired[id]) && !x.Withdrawn {
			wanted[x.file] = id
		}
	}
	if p.others == 0 || len(wanted) == 0 {
		return nil
	}
	var some []branch.Commit
	for r, err := range dr.past.since(ctx, head.Commit, p.known, p.since) {
		if err != nil {
			return err
		}
		var first []string // files that no commit before it has
		if !r.ByMuster() {
			some = append(some, branch.Commit{ID: r.Commit.ID, Parents: r.Commit.Parents, Tree: r.Commit.Tree})
		} else if r.Kind == ledger.Dispatch {
			for _, id := range r.Dispatches() {
				if file := dispatchFile(r.Path, id); wanted[file] == id {
					first = append(first, file)
				}
			}
		}
		if len(first) == 0 && len(some) < versionsTogether {
			continue
		}
		if err := dr.countVersions(ctx, some, wanted); err != nil {
			return err
		}
		some = some[:0]
		for _, file := range first {
			delete(wanted, file)
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
		look := branch.Selection{Below: files, Content: func(string) bool { return true }}
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
	x.Dispatch = fleet.Larger(x.Dispatch, fleet.Rough(id, f.After))
	dr.ordered[id] = x
	return nil
}

// rememberOne stores a dispatch that is missing from git, unless a repair has withdrawn it since: a
// person has then deleted the withdrawn file.
func (dr *drift) rememberOne(ctx context.Context, e *ledger.Operation, id string, repairs []string) error {
	for _, commit := range repairs {
		_, err := dr.past.file(ctx, commit, withdrawnFile(e.Path, id))
		if err == nil {
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("what commit %.12s withdrew: %w", commit, err)
		}
	}
	file := dispatchFile(e.Path, id)
	content, err := dr.past.file(ctx, e.ID, file)
	if errors.Is(err, fs.ErrNotExist) { // the message of the commit is wrong
		dr.log.Debug("a dispatch of the log is not in its commit", "dispatch", id, "commit", e.ID)
		return nil
	}
	if err != nil {
		return fmt.Errorf("dispatch %s of commit %.12s: %w", id, e.ID, err)
	}
	if d, err := fleet.Original(file, content); err == nil {
		dr.ordered[id] = ordered{Dispatch: d, overlay: e.Path, file: file, commit: e.ID}
	}
	return nil
}

// unseen counts a dispatch as possibly connected although another muster retired it after
// seeing all its agents: this process may never have seen them.
func (dr *drift) unseen(ctx context.Context, e *ledger.Operation, id string) {
	overlay := strings.TrimPrefix(strings.TrimPrefix(e.Path, dr.dir), "/")
	if dr.scanned == "" || !dr.poll.inference.Knows(overlay) {
		return // agents at the first poll belong to no known dispatch
	}
	file := dispatchFile(e.Path, id)
	content, err := dr.past.file(ctx, e.ID, file)
	if err != nil {
		dr.log.Debug("a dispatch that others have retired cannot be read", "dispatch", id, "err", err)
		return
	}
	if d, err := fleet.Original(file, content); err == nil {
		dr.poll.inference.Retired(overlay, d)
	}
}
