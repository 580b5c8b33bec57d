package generator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"time"

	"muster/generator/fleet"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/generator/policy"
	"muster/gitops/branch"
)

// memory knows the orders of the branch, whatever somebody does to its files: each order counts until its
// agents have registered, muster has retired it, or its lease has expired. It contains the orders that
// this process has seen in state.yaml or made, and those in the log of what others have pushed since the
// last tick, or before this process started. [fleet.Overlay.Join] completes the files by them.
type memory struct {
	history branch.History
	dir     string // of the overlays
	poll    *poller
	clock   Clock
	log     *slog.Logger
	// orders are those whose agents may still register, by ID. retired is when retirements were made, by
	// the ID of the order; see [copyOf] for those by copies of its overlay.
	orders  map[string]known
	retired map[string]time.Time
	// seen are when orders were last in the log or in state.yaml, by ID, for as long as the log is read.
	seen map[string]time.Time
	// scanned is the commit up to which the log was read, and read the time at which it was the head.
	scanned string
	read    time.Time
	// commits are muster's last commits to each overlay that had an identity, the newest first, and repairs the
	// last repair of each, by the overlay's directory. Commits without an identity have no state.yaml.
	commits map[string][]string
	repairs map[string]Repair
	// rewritten is the last time that the branch was set back or replaced; nil if it was not.
	rewritten *Rewritten
	files     map[string]pastFile // read in tries that failed later
	edited    edited              // the last answer of [memory.editor]
	// others are the overlays to which other processes have pushed since the last tick.
	others []string
}

// known is an order that is known.
type known struct {
	plan.Dispatch
	overlay string // its directory
}

func newMemory(cfg Config, poll *poller) *memory {
	return &memory{
		history: cfg.Repository, dir: cfg.Overlays, poll: poll, clock: cfg.Clock, log: cfg.Log,
		orders: map[string]known{}, retired: map[string]time.Time{}, seen: map[string]time.Time{}, commits: map[string][]string{}, repairs: map[string]Repair{},
		files: map[string]pastFile{},
	}
}

const (
	// logAge is how far back the log is read: an hour more than an order can be in flight,
	// because clocks differ and a commit is made after its observation.
	logAge = policy.LongestLease + plan.Grace + time.Hour
	// commitsKept is how many of its commits to an overlay muster keeps to find a lost state.yaml.
	commitsKept = 8
	// maxKept and largestKept bound the files that are kept from try to try.
	maxKept, largestKept = 1000, 64 << 10
	// rewrittenFor is how long a rewritten branch is a condition.
	rewrittenFor = 15 * time.Minute
)

// errShallow is returned if the server does not have all of the history that is needed.
var errShallow = errors.New("the repository on the server is shallow: complete it there (git fetch --unshallow)")

// join returns the overlays of a head with all orders that count. A decision without the log could repeat
// an order of another muster that a person has just deleted: so the tick fails if it cannot be read.
func (m *memory) join(ctx context.Context, head branch.Head, loaded []fleet.Overlay) ([]fleet.Overlay, error) {
	now := m.clock.Now().UTC().Truncate(time.Second) // as what is decided: a lease is over for both or for neither
	if err := m.readLog(ctx, head, loaded, now); err != nil {
		return nil, fmt.Errorf("fleet repository: reading the commits since the last tick: %w (nothing is ordered until the history can be read. "+
			"If the history is lost, stop muster for %s and push the files as a first commit)", err, policy.LongestLease)
	}
	loaded = slices.Clone(loaded)
	old := func(_ string, at time.Time) bool { return now.Sub(at) > logAge }
	maps.DeleteFunc(m.retired, old)
	maps.DeleteFunc(m.seen, old)
	there := map[string]bool{}
	for i := range loaded {
		for _, d := range loaded[i].Dispatches {
			there[d.ID] = there[d.ID] || !loaded[i].Copied(d)
		}
	}
	lost := m.rewritten != nil && m.rewritten.To == head.Commit // orders that no other process can know
	of := map[string][]plan.Dispatch{}                          // by the directory of the overlay that they belong to
	for id, x := range m.orders {
		o := owner(loaded, x)
		if !there[id] && !lost && (o == nil || o.Read() && !o.HasManifest(id)) && m.poll.register.All(x.Dispatch) {
			m.left(ledger.Retire, id, now) // its agents are known
		} else if o != nil && m.retired[copyOf(id, o.Identity.ID)].IsZero() { // without an overlay it may be written again
			of[o.Path] = append(of[o.Path], x.Dispatch)
		}
	}
	for i := range loaded {
		o := &loaded[i]
		o.Join(of[o.Path], func(id string) bool { return !m.retired[id].IsZero() }, now)
		m.remember(o)
	}
	for id, x := range m.orders {
		m.seen[id] = now
		if o := owner(loaded, x); !there[id] && x.Expired(now) && (o == nil || o.Read()) {
			m.left(ledger.Retire, id, now)
		}
	}
	orders := make(map[string]bool, len(m.seen))
	for id := range m.seen {
		orders[id] = true
	}
	for i := range loaded {
		loaded[i].Orders = orders
	}
	return loaded, nil
}

// remember stores the orders of an overlay. Whether one is withdrawn is known from commits alone: a file
// that is missing at one head may be there at the next.
func (m *memory) remember(o *fleet.Overlay) {
	for _, d := range o.Dispatches {
		if o.Copied(d) {
			continue
		}
		x, before := m.orders[d.ID]
		d.Edited, d.Withdrawn = false, before && x.Withdrawn || o.RecordedWithdrawn(d.ID)
		m.orders[d.ID] = known{Dispatch: d, overlay: o.Path}
	}
}

// forgetCopies forgets the orders of overlays that turned out to be copies.
func (m *memory) forgetCopies(loaded []fleet.Overlay) {
	for i := range loaded {
		for _, d := range loaded[i].Dispatches {
			if loaded[i].Copied(d) && m.orders[d.ID].overlay == loaded[i].Path {
				delete(m.orders, d.ID)
			}
		}
	}
}

// owner returns the overlay that an order belongs to: the one with its identifier, or else the one in its
// directory; nil if the overlay was removed.
func owner(loaded []fleet.Overlay, x known) *fleet.Overlay {
	at := slices.IndexFunc(loaded, func(o fleet.Overlay) bool { return o.Carries(x.Dispatch) })
	if at < 0 {
		at = slices.IndexFunc(loaded, func(o fleet.Overlay) bool { return o.Path == x.overlay })
	}
	if at < 0 {
		return nil
	}
	return &loaded[at]
}

// noteOperations remembers what was pushed. If it is not known whether a push landed, the log of the next
// head shows it.
func (m *memory) noteOperations(head, next branch.Head, done []ledger.Draft) {
	for _, a := range done {
		if last := m.commits[a.Path]; a.Decision.State.Identity.ID != "" && (len(last) == 0 || last[0] != next.Commit) {
			m.commits[a.Path] = append([]string{next.Commit}, last[:min(commitsKept-1, len(last))]...)
		}
		switch a.Kind {
		case ledger.Dispatch:
			for _, d := range a.Added {
				m.seen[d.ID] = a.Decision.At()
				m.orders[d.ID] = known{Dispatch: d, overlay: a.Path}
			}
		case ledger.Repair:
			m.noteRepair(a.Path, Repair{At: a.Decision.At(), Subject: ledger.Subject(a)})
		case ledger.Withdraw, ledger.Retire:
			for _, r := range a.Retirements() {
				if !r.Copied {
					m.left(a.Kind, r.ID, a.Decision.At())
				} else if a.Kind == ledger.Retire {
					m.retired[copyOf(r.ID, a.Decision.State.Identity.ID)] = a.Decision.At()
				}
			}
		}
	}
	if m.scanned == head.Commit && len(done) > 0 {
		m.scanned = next.Commit
	}
}

// copyOf is the key of the retirement of an order by a copy of its overlay, which ends nothing of the
// original.
func copyOf(id, identity string) string { return id + "@" + identity }

// left notes that an order was withdrawn or retired.
func (m *memory) left(kind ledger.Kind, id string, at time.Time) {
	if kind == ledger.Retire {
		delete(m.orders, id)
		m.retired[id] = at
	} else if x, ok := m.orders[id]; ok {
		x.Withdrawn = true
		m.orders[id] = x
	}
}

// noteRepair notes a repair of the overlay with a path.
func (m *memory) noteRepair(path string, r Repair) {
	if r.At.After(m.repairs[path].At) {
		m.repairs[path] = r
	}
}

// repairsOf returns the last repair of each overlay, by name.
func (m *memory) repairsOf(overlays []fleet.Overlay) map[string]Repair {
	all := map[string]Repair{}
	for _, o := range overlays {
		if r, ok := m.repairs[o.Path]; ok {
			all[o.Name] = r
		}
	}
	return all
}

// recentRewrite returns the last time that the branch was rewritten; nil if that is not recent.
func (m *memory) recentRewrite() *Rewritten {
	if r := m.rewritten; r != nil && m.clock.Now().Sub(r.At) < rewrittenFor {
		return r
	}
	return nil
}

// wrote returns muster's last commits to an overlay with an identity, the newest first.
func (m *memory) wrote(overlay string) []string { return m.commits[overlay] }

// since returns the operations of a commit and its ancestors, newest first, up to a time and without those
// of a known commit, and whether it reached the known commit. Successive commits by others are one
// operation: a branch can have many thousands of them. An incomplete history is [errShallow].
func (m *memory) since(ctx context.Context, from, known string, since time.Time) (all []ledger.Operation, reached bool, err error) {
	log := ledger.Read(m.dir, m.history.Commits(ctx, from, branch.Limit{Known: known}))
	for o, err := range (ledger.Stop{Since: since, Known: known}).Apply(log) {
		if errors.Is(err, ledger.ErrCut) {
			err = errShallow
		}
		if err != nil {
			return nil, false, err
		}
		reached = reached || slices.Contains(o.Parents, known)
		if len(all) == 0 || !byOthers(&o) || !byOthers(&all[len(all)-1]) {
			all = append(all, o.Brief())
		}
	}
	return all, reached, nil
}

// byOthers reports whether neither muster nor one of its commands made the commit of an operation.
func byOthers(o *ledger.Operation) bool { return !o.ByMuster() && !o.Kind.Command() }

// readLog reads what was pushed since the last tick, or before this process started. The branch may have
// been reset or replaced: then it reads the log of the new head, and forgets nothing.
func (m *memory) readLog(ctx context.Context, head branch.Head, loaded []fleet.Overlay, now time.Time) error {
	m.others = nil
	if m.scanned == head.Commit {
		m.read = now
		return nil
	}
	since := now.Add(-logAge)
	if m.scanned == "" && slices.ContainsFunc(loaded, func(o fleet.Overlay) bool { return o.LostState() }) {
		since = since.Add(-policy.LongestUptime) // agents with the lost identity may be connected for that long
	}
	known := m.scanned
	log, reached, err := m.since(ctx, head.Commit, known, since)
	if err != nil {
		return err
	}
	if known != "" && !reached {
		if now.Sub(m.read) < logAge/2 { // later, its log may only be longer than what is read
			m.rewritten = &Rewritten{At: now, From: known, To: head.Commit}
		}
		m.commits = map[string][]string{} // the server may no longer have those that the branch lost
		if log, _, err = m.since(ctx, head.Commit, "", since); err != nil {
			return err
		}
	}
	if err := m.fold(ctx, log, loaded, now); err != nil {
		return err
	}
	m.scanned, m.read, m.files = head.Commit, now, map[string]pastFile{}
	return nil
}

// fold takes over the operations of a log, newest first.
func (m *memory) fold(ctx context.Context, log []ledger.Operation, loaded []fleet.Overlay, now time.Time) error {
	f := newFolding(loaded, now)
	for i := range log {
		e := &log[i]
		if byOthers(e) {
			f.others = true
			continue
		}
		f.note(e)
		if e.Kind == ledger.Repair {
			m.noteRepair(e.Path, Repair{At: e.At, Subject: e.Subject()})
		}
		for _, x := range e.Orders {
			if m.seen[x.ID].Before(e.At) {
				m.seen[x.ID] = e.At
			}
			if err := m.foldOrder(ctx, f, e, x); err != nil {
				return err
			}
		}
	}
	for overlay, commit := range f.newest {
		if err := m.compare(ctx, f, overlay, commit); err != nil {
			return err
		}
	}
	for id, at := range f.retired {
		if x, ok := m.orders[id]; ok {
			m.poll.inference.Retired(m.name(x.overlay), x.Dispatch)
		}
		m.left(ledger.Retire, id, at)
	}
	for id := range f.withdrawn {
		if _, ok := m.orders[id]; !ok && f.recorded[id].ID != "" {
			m.orders[id] = f.recorded[id]
		}
		m.left(ledger.Withdraw, id, now)
	}
	for overlay, ids := range f.commits {
		m.others = append(m.others, overlay)
		m.commits[overlay] = append(ids, m.commits[overlay]...)[:min(commitsKept, len(ids)+len(m.commits[overlay]))]
	}
	return nil
}

// folding is what is known of a log while it is folded.
type folding struct {
	now       time.Time
	recorded  map[string]known // the orders in state.yaml at the head, by ID
	manifests func(id string) bool
	unread    func(overlay string) bool // its orders may be there, though none is recorded
	retired   map[string]time.Time      // by ID
	withdrawn map[string]bool
	commits   map[string][]string // muster's last ones with an identity, the newest first, by the overlay's directory
	// others: people have pushed since. newest are muster's last commits to overlays, without those of
	// commands, which keep edited lines; empty if nobody has pushed since.
	others bool
	newest map[string]string
}

func newFolding(loaded []fleet.Overlay, now time.Time) *folding {
	f := &folding{
		now: now, recorded: map[string]known{}, retired: map[string]time.Time{}, withdrawn: map[string]bool{},
		commits: map[string][]string{}, newest: map[string]string{},
	}
	f.manifests = func(id string) bool {
		return slices.ContainsFunc(loaded, func(o fleet.Overlay) bool { return o.HasManifest(id) })
	}
	f.unread = func(overlay string) bool {
		return slices.ContainsFunc(loaded, func(o fleet.Overlay) bool { return o.Path == overlay && !o.Read() })
	}
	for i := range loaded {
		for _, d := range loaded[i].Recorded() {
			if !loaded[i].Copied(d) {
				f.recorded[d.ID] = known{Dispatch: d, overlay: loaded[i].Path}
			}
		}
	}
	return f
}

// note notes the commit of an operation.
func (f *folding) note(e *ledger.Operation) {
	if _, found := f.newest[e.Path]; e.ByMuster() && !found {
		if f.newest[e.Path] = ""; f.others {
			f.newest[e.Path] = e.ID
		}
	}
	ids := f.commits[e.Path]
	if e.Identity != "" && len(ids) < commitsKept {
		ids = append(ids, e.ID)
	}
	f.commits[e.Path] = ids
}

// needs reports whether the values of an order must be read: state.yaml lacks it, or has it with others.
// One that is over and has left git is not needed.
func (f *folding) needs(x ledger.Order) bool {
	d, found := f.recorded[x.ID]
	if found {
		return d.Agents != x.Agents || !d.NotAfter.Equal(x.NotAfter) || d.Purpose != x.Purpose
	}
	return !(plan.Dispatch{NotAfter: x.NotAfter}).Expired(f.now) || f.manifests(x.ID)
}

// foldOrder takes over what an operation states about an order.
func (m *memory) foldOrder(ctx context.Context, f *folding, e *ledger.Operation, x ledger.Order) error {
	switch {
	case e.Kind == ledger.Dispatch:
		return m.foldNew(ctx, f, e, x)
	case x.Copied && (e.Kind == ledger.Retire || x.NeverCreated):
		m.retired[copyOf(x.ID, e.Identity)] = e.At
	case x.Copied:
	case e.Kind == ledger.Retire, x.NeverCreated:
		f.retired[x.ID] = e.At
	case e.Kind == ledger.Withdraw, e.Kind == ledger.Cancel:
		f.withdrawn[x.ID] = true
	}
	return nil
}

// foldNew takes over an order that an operation makes. Its values are in state.yaml as of that commit.
func (m *memory) foldNew(ctx context.Context, f *folding, e *ledger.Operation, x ledger.Order) error {
	if _, ok := m.orders[x.ID]; ok || !m.retired[x.ID].IsZero() {
		return nil
	}
	if !f.retired[x.ID].IsZero() {
		if m.scanned != "" && m.poll.inference.Knows(m.name(e.Path)) {
			// Another muster retired it after seeing all its agents, which this process may never have seen.
			if d, found, err := m.ordered(ctx, e, x.ID); err == nil && found {
				m.poll.inference.Retired(m.name(e.Path), d)
			}
		}
		return nil
	}
	if !f.needs(x) {
		if _, found := f.recorded[x.ID]; !found && !f.unread(e.Path) {
			f.retired[x.ID] = f.now // it is over and has left git, and a person may put it back
		}
		return nil // [memory.remember] stores it, if it counts
	}
	d, found, err := m.ordered(ctx, e, x.ID)
	if err != nil {
		return fmt.Errorf("order %s of commit %.12s: %w", x.ID, e.ID, err)
	}
	if found { // otherwise the message of the commit is wrong
		m.orders[x.ID] = known{Dispatch: d, overlay: e.Path}
	}
	return nil
}

// compare takes over the orders of an overlay that people have edited in state.yaml since a commit by
// muster; empty: nobody can have.
func (m *memory) compare(ctx context.Context, f *folding, overlay, commit string) error {
	if commit == "" || !slices.ContainsFunc(slices.Collect(maps.Values(f.recorded)), func(x known) bool { return x.overlay == overlay }) {
		return nil
	}
	content, err := m.file(ctx, commit, fleet.StateFile(overlay))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the orders of %s in commit %.12s: %w", overlay, commit, err)
	}
	for _, d := range fleet.ReadOrders(content) {
		r, found := f.recorded[d.ID]
		_, before := m.orders[d.ID]
		same := fleet.SameOrder(r.Dispatch, d) && (r.Withdrawn || !d.Withdrawn)
		if found && !same && !before && f.retired[d.ID].IsZero() && m.retired[d.ID].IsZero() {
			m.orders[d.ID] = known{Dispatch: d, overlay: overlay}
		}
	}
	return nil
}

// ordered returns an order as the commit that made it contains it; false if it does not.
func (m *memory) ordered(ctx context.Context, e *ledger.Operation, id string) (plan.Dispatch, bool, error) {
	content, err := m.file(ctx, e.ID, fleet.StateFile(e.Path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return plan.Dispatch{}, false, err
	}
	d, found := fleet.ReadOrder(content, id)
	return d, found, nil
}

// name returns the name of the overlay in a directory.
func (m *memory) name(dir string) string { return ledger.Name(m.dir, dir) }

// pastFile is a file at a past commit; err is fs.ErrNotExist if the file did not exist.
type pastFile struct {
	content []byte
	err     error
}

// file reads a file of a past commit. It keeps the result until the log has been read to its end:
// if one request in ten fails, no attempt would succeed otherwise.
func (m *memory) file(ctx context.Context, commit, name string) ([]byte, error) {
	key := commit + ":" + name
	if f, ok := m.files[key]; ok {
		return f.content, f.err
	}
	content, err := m.history.File(ctx, commit, name)
	if gone := errors.Is(err, fs.ErrNotExist); (err == nil || gone) && len(content) <= largestKept && len(m.files) < maxKept {
		m.files[key] = pastFile{content, err}
	}
	return content, err
}
