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

	"muster/generator/fleet"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/policy"
	"muster/gitops/branch"
)

// pastLog reads the log of the branch, and caches what may be needed again.
type pastLog struct {
	history branch.History
	clock   Clock
	log     *slog.Logger
	files   map[string]pastFile // read in tries that failed later
	answers map[string]answer   // what dispatches were, by ID
	orders  *orders             // during a tick
	oldest  time.Time           // as far back as orders are read
	repairs map[string]Repair   // the last of each overlay, by path
}

func newPastLog(cfg Config) *pastLog {
	return &pastLog{
		history: cfg.Repository, clock: cfg.Clock, log: cfg.Log,
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
	// maxKept and largestKept bound the files that are kept from try to try.
	maxKept, largestKept = 1000, 64 << 10
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
			l.orders = readOrders(ctx, l.history, head, l.oldest)
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

func readOrders(ctx context.Context, history branch.History, head branch.Head, since time.Time) *orders {
	all := &orders{of: map[string]ordered{}}
	for r, err := range recent(ctx, history, head.Commit, "", since) {
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
func (l *pastLog) suspect(ctx context.Context, head branch.Head, ops []ledger.Operation) {
	repair := func(a ledger.Operation) bool { return a.Kind == ledger.Repair }
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
func (l *pastLog) lately(ctx context.Context, head branch.Head) ([]ledger.Record, error) {
	var log []ledger.Record
	for r, err := range ledger.Read(l.history.Commits(ctx, head.Commit, branch.Limit{Commits: suspectsDeep})) {
		if err != nil {
			return nil, err
		}
		log = append(log, r)
	}
	return log, nil
}

// suspects returns the commits of others since muster's last one to an overlay.
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
