// Package generator implements the tick: the straight line from what Buildkite
// needs to a commit that a syncer can apply.
//
//	head       ← Repository.Head                   branch head; fetched only when it moved
//	overlays   ← Load(head)                        policies, templates, dispatches
//	snapshot   ← Buildkite.Snapshot                agents first, then jobs
//	decisions  ← plan.Decide                       a pure function of the three
//	operations ← Render(overlay, decision)         nothing changes: done
//	commit     ← Repository.Commit                 compare-and-swap; after a conflict, retry from the head
//
// Between ticks, muster keeps only what saves time: a restarted muster, or a
// second one that runs in parallel, continues from the head.
package generator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"muster/generator/condition"
	"muster/generator/fleet"
	"muster/generator/kustomize"
	"muster/generator/ledger"
	"muster/generator/plan"
	"muster/gitops/branch"
)

// Clock returns the time and sleeps.
type Clock interface {
	Now() time.Time
	// Sleep returns after d, or with the context's error when that ends first.
	Sleep(ctx context.Context, d time.Duration) error
}

// Config configures a Generator. Fields are required unless documented as optional.
type Config struct {
	Repository Repository
	Buildkite  Buildkite
	Clock      Clock
	// Overlays is the directory of overlays, as in "overlays".
	Overlays string
	// Branch is the name of the repository's branch; optional: without it, no copy of a branch is
	// recognised.
	Branch string
	// Namespace is the namespace of muster's own pod, in which no Job may be; empty if muster
	// does not run in a pod.
	Namespace string
	// Build builds templates; optional: without it, this process builds them. A build that takes
	// longer than Patience continues while muster decides on other overlays, and its overlay is
	// suspended meanwhile. Without Build, all overlays wait.
	Build    kustomize.Builder
	Patience time.Duration
	// DryRun does everything but commit.
	DryRun bool
	// Log is optional.
	Log *slog.Logger
	// Done is called after each tick of [Generator.Run]; optional.
	Done func(Result, error)
	// Triggers ends the pauses of [Generator.Run] early; optional.
	Triggers *Triggers
	// Pause sleeps between two ticks; optional: Sleep of the Clock. The next tick begins when it
	// returns, also before d has passed, as after SIGHUP.
	Pause func(ctx context.Context, d time.Duration) error
	// Watch receives each tick of [Generator.Run]; optional.
	Watch Watcher
	// Landed is called once with each push that has landed: the heads before and after it, and what
	// it changed. It is called as soon as that is known, and must not wait; optional.
	Landed func(before, after string, changes []branch.Change)
}

// Generator runs ticks. It is not safe for concurrent use. What it keeps between ticks only
// saves time, or remembers what others may have changed; each part owns its own.
type Generator struct {
	cfg       Config
	git       *timedRepository // cfg.Repository
	overlays  overlayReader
	memory    *memory
	ids       *identities
	poller    *poller
	publisher *publisher
	reporter  *reporter
	trigger   *trigger
	// unrepaired reports that more than [maxRepairs] overlays needed repairs at the last one.
	unrepaired bool
}

// New returns a Generator.
func New(cfg Config) *Generator {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	git := &timedRepository{Repository: cfg.Repository, clock: cfg.Clock}
	cfg.Repository = git
	loader := fleet.NewLoader(cfg.Overlays).Reserve(cfg.Namespace)
	if cfg.Build != nil {
		loader.BuildWith(cfg.Build, cfg.Patience).WaitWith(cfg.Clock.Sleep)
	}
	rep := &reporter{log: cfg.Log, clock: cfg.Clock, watch: cfg.Watch, dryRun: cfg.DryRun}
	poll := &poller{source: cfg.Buildkite, clock: cfg.Clock, log: cfg.Log}
	next := &trigger{clock: cfg.Clock, pause: cfg.Pause, log: cfg.Log, triggers: cfg.Triggers}
	if next.pause == nil {
		next.pause = cfg.Clock.Sleep
	}
	if next.pace.Every = plan.SignalSpacing; cfg.Triggers != nil {
		next.pace.Every = cfg.Triggers.Every
	}
	return &Generator{
		cfg: cfg, git: git, overlays: overlayReader{loader: loader}, poller: poll, reporter: rep, trigger: next,
		memory:    newMemory(cfg, poll),
		ids:       newIdentities(cfg),
		publisher: &publisher{repository: cfg.Repository, clock: cfg.Clock, reporter: rep, refused: map[string]refusal{}, onLanded: cfg.Landed},
	}
}

// Input is what a tick decides from.
type Input struct {
	// Overlays are the valid ones, as in git.
	Overlays []plan.Overlay
	// Snapshot is the result of the poll; its At is zero if Buildkite was not polled.
	Snapshot plan.Snapshot
}

// Result is what one tick found and did.
type Result struct {
	// Head is the branch's head after the tick.
	Head branch.Head
	// Decisions has one entry for each overlay that could be read.
	Decisions []plan.Decision
	// Operations are the commits written, or that would be written in a dry run.
	Operations []ledger.Draft
	// Landed are commits of an earlier tick whose push was interrupted before the server
	// reported its result: they are in git.
	Landed []ledger.Draft
	// Suspended are the overlays for which nothing is dispatched, by name.
	Suspended []Suspended
	// Warnings are files that are ignored; the next repair removes them.
	Warnings []Warning
	// Unserved are the queues with pending jobs that no overlay serves.
	Unserved []plan.Unserved
	// Conflicts is the number of conflicts with other writers.
	Conflicts int
	// Input is what the decisions were made from.
	Input Input
	// PollTook is how long the poll of Buildkite took in this tick.
	PollTook time.Duration
	// GitTook is how long git took in the last try: for the head, its files, the history and pushes.
	GitTook time.Duration
	// Repairs are muster's last repairs of manual edits, by overlay.
	Repairs map[string]Repair
	// Rewritten is the last time that the branch was rewritten; nil if it was not lately.
	Rewritten *Rewritten
	// Unverified reports that a dry run counts the orders in state.yaml, because the log that could
	// contain others is incomplete.
	Unverified bool
	// Metrics is why Buildkite's metrics cannot be read; nil: they can, or are not.
	Metrics error
	// Triggers are the problems of [Triggers.Problems].
	Triggers []condition.Condition
}

// Rewritten is a branch whose history no longer has the head that muster had read.
type Rewritten struct {
	At       time.Time
	From, To string // the heads
}

// Repair is a commit by which muster undid a manual edit.
type Repair struct {
	At      time.Time
	Subject string
}

// Warning is a file of an overlay that is ignored.
type Warning struct {
	Overlay string
	// Err names the file, the problem and its consequence.
	Err error
}

// ErrConflicts is returned by a tick if every try ended in a conflict.
var ErrConflicts = errors.New("push conflict on every try")

const (
	// tries is the maximum number of tries in a tick that takes longer than patience, and
	// maxTries in one that does not: with ten competing pushes a second, several short tries
	// succeed where one long try does not. After that, the next tick is not far.
	tries, maxTries = 5, 16
	// patience is the time, from the first conflict, after which a tick has taken long.
	patience = 4 * time.Second
)

// Tick polls once, decides once and commits once. After a conflict it repeats all of that, a
// few times. After an error, the operations in the result are those that were committed anyway.
// Suspended overlays are not an error but are listed in the result.
func (g *Generator) Tick(ctx context.Context) (Result, error) {
	var result Result
	g.poller.beginTick()
	g.reporter.begin()
	defer g.reporter.end()
	var done, landed []ledger.Draft // by the tries so far, which may push operations separately
	var lost time.Time              // the first conflict
	var repaired *branch.Head       // the head with repairs
	var found []Warning             // also in files that were repaired
	for try := 0; ; try++ {
		g.reporter.enter("")
		if err := BackOff(ctx, g.cfg.Clock, try); err != nil {
			return result, err
		}
		conflicts := result.Conflicts
		var err error
		g.git.reset()
		result, err = g.attempt(ctx, repaired)
		result.GitTook = g.git.took()
		result.Conflicts += conflicts
		done, landed = append(done, result.Operations...), append(landed, result.Landed...)
		result.Operations, result.Landed = done, landed
		for _, w := range result.Warnings {
			if !slices.ContainsFunc(found, func(x Warning) bool { return x.Overlay == w.Overlay && x.Err.Error() == w.Err.Error() }) {
				found = append(found, w)
			}
		}
		result.Warnings = found
		switch {
		case errors.Is(err, errRepaired) && repaired == nil: // the next time counts as a conflict: somebody edits the files meanwhile
			head := result.Head
			repaired = &head
			try--
			continue
		case !errors.Is(err, branch.ErrMoved) && !errors.Is(err, errRepaired):
			return result, err
		}
		result.Conflicts++
		repaired = nil
		now := g.cfg.Clock.Now()
		if try == 0 {
			lost = now
		}
		g.poller.lost(now)
		if try+1 == maxTries || try+1 >= tries && now.Sub(lost) >= patience {
			g.poller.forget()
			return result, fmt.Errorf("%w (%d)", ErrConflicts, try+1)
		}
		level := slog.LevelInfo
		if try >= tries {
			level = slog.LevelDebug
		}
		g.cfg.Log.Log(ctx, level, "push conflict, retrying", "head", result.Head.Commit, "try", try+1)
	}
}

// attempt polls, decides and commits once. repaired is the head that it begins with; nil: the branch's.
func (g *Generator) attempt(ctx context.Context, repaired *branch.Head) (Result, error) {
	g.reporter.enter(StepHead)
	var head branch.Head
	var err error
	if repaired != nil {
		head = *repaired
	} else {
		head, err = g.cfg.Repository.Head(ctx)
		g.reporter.gitAnswered(err)
	}
	if err != nil {
		return Result{}, fmt.Errorf("fleet repository: %w", err)
	}
	result := Result{Head: head, Triggers: g.trigger.triggers.problems()}
	if result.Landed, err = g.publisher.landed(ctx, head); err != nil {
		return result, err
	}
	edited, err := g.overlaysAt(ctx, head, &result)
	if err != nil || len(edited) == 0 {
		return result, err
	}
	loaded := g.publisher.withRefused(head, edited)
	if repaired != nil && g.unrepaired {
		loaded = suspendDamaged(loaded)
	}
	result.Warnings = warnings(loaded)
	ops, err := g.repair(ctx, head, loaded, &result)
	switch {
	case err != nil:
		return result, err
	case len(result.Operations) > 0 && !g.cfg.DryRun:
		return result, errRepaired
	case len(ops) > 0 && !g.cfg.DryRun: // all were refused
		loaded = suspendDamaged(g.publisher.withRefused(head, edited))
	}
	overlays := fleet.Decidable(loaded)
	if len(overlays) == 0 {
		result.Suspended = suspended(loaded, nil)
		return result, nil
	}
	most := g.publisher.maxJobs(loaded)
	now := g.cfg.Clock.Now().UTC().Truncate(time.Second)
	g.reporter.enter(StepPoll)
	if g.poller.first() {
		result.Metrics = g.trigger.readBaseline(ctx, now, overlays)
	}
	began := g.cfg.Clock.Now()
	snapshot, err := g.poller.observe(ctx, now, overlays)
	result.PollTook = g.cfg.Clock.Now().Sub(began)
	g.reporter.buildkiteAnswered(err)
	if err != nil {
		return result, err
	}
	if snapshot.Counted != nil {
		loaded = withShared(loaded)
		overlays = fleet.Decidable(loaded)
	}
	result.Input = Input{Overlays: overlays, Snapshot: snapshot}
	g.reporter.enter(StepDecide)
	g.decide(&result, most)
	g.reporter.enter(StepRender)
	ops, failed := render(head.Commit, loaded, result.Decisions)
	result.Operations = append(result.Operations, ops...) // in a dry run after repairs
	result.Suspended = append(suspended(loaded, result.Decisions), failed...)
	g.memory.nameEditors(ctx, head, loaded, result.Suspended)
	if len(ops) == 0 || g.cfg.DryRun {
		g.poller.done()
		return result, nil
	}
	g.reporter.enter(StepCommit)
	return g.write(ctx, loaded, result)
}

// overlaysAt returns the overlays of a head with all orders that count and their identities, and stores in
// the result what is found on the way. Without overlays in the directory, it suspends the directory in the result.
func (g *Generator) overlaysAt(ctx context.Context, head branch.Head, r *Result) ([]fleet.Overlay, error) {
	g.reporter.enter(StepLoad)
	loaded, err := g.overlays.load(ctx, head)
	switch {
	case ctx.Err() != nil: // which says nothing of the files
		return nil, fmt.Errorf("reading the overlays: %w", ctx.Err())
	case err != nil:
		return nil, fmt.Errorf("no overlays can be read below %q of the repository (muster init writes some, --overlays says where they are): %w", g.cfg.Overlays, err)
	case len(loaded) == 0:
		dir := cmp.Or(g.cfg.Overlays, ".")
		r.Suspended = []Suspended{invalid(dir, fmt.Errorf("%s: has no scaling.yaml below it, so that nothing is scaled: muster init writes one, and --overlays says where they are", dir))}
		return nil, nil
	}
	joined, err := g.memory.join(ctx, head, loaded)
	if r.Unverified = errors.Is(err, errShallow) && g.cfg.DryRun; r.Unverified {
		joined, err = slices.Clone(loaded), nil
	}
	if err != nil {
		return nil, err
	}
	r.Rewritten = g.memory.recentRewrite()
	g.ids.forget(g.memory.others)
	if err := g.ids.complete(ctx, head.Commit, joined, g.memory.wrote); err != nil {
		return nil, err
	}
	g.memory.forgetCopies(joined)
	r.Repairs = g.memory.repairsOf(joined)
	return joined, nil
}

// maxRepairs is how many overlays are repaired in a tick, valid ones first. Their repairs are in memory until its end,
// and the other overlays wait for them.
const maxRepairs = 100

// suspendDamaged suspends the overlays that need repairs, which a later tick makes.
func suspendDamaged(loaded []fleet.Overlay) []fleet.Overlay {
	loaded = slices.Clone(loaded)
	for i := range loaded {
		if o := &loaded[i]; len(o.Repair()) > 0 {
			o.Suspend(fmt.Sprintf("waits for its repair: muster repairs at most %d overlays in a tick", maxRepairs))
		}
	}
	return loaded
}

// errRepaired reports that repairs were pushed: the tick continues from the new head.
var errRepaired = errors.New("muster's files were repaired")

// repair pushes the repairs of at most [maxRepairs] overlays, and stores the committed ones in the result; in a dry run
// it stores all. It returns the repairs. An error means that they could not be pushed.
func (g *Generator) repair(ctx context.Context, head branch.Head, loaded []fleet.Overlay, r *Result) ([]ledger.Draft, error) {
	ops := repairs(head.Commit, loaded, g.cfg.Clock.Now().UTC().Truncate(time.Second))
	if len(ops) == 0 {
		return nil, nil
	}
	if g.unrepaired = len(ops) > maxRepairs && !g.cfg.DryRun; g.unrepaired {
		last := map[string]int{} // invalid overlays: nothing could be ordered for them after their repair either
		for i := range loaded {
			if loaded[i].Err() != nil {
				last[loaded[i].Path] = 1
			}
		}
		ops = slices.Clone(g.publisher.inTurn(ops))
		slices.SortStableFunc(ops, func(a, b ledger.Draft) int { return cmp.Compare(last[a.Path], last[b.Path]) })
		ops = ops[:maxRepairs]
	}
	g.memory.suspect(ctx, head, ops)
	if g.cfg.DryRun {
		r.Operations = ops
		return ops, nil
	}
	g.reporter.enter(StepCommit)
	next, done, err := g.publisher.commitRepairs(ctx, head, g.publisher.inTurn(ops))
	g.memory.noteOperations(head, next, done)
	r.Head, r.Operations, r.Repairs = next, done, g.memory.repairsOf(loaded)
	if err != nil {
		return ops, fmt.Errorf("committing: %w", err)
	}
	return ops, nil
}

// decide makes the decisions on the snapshot and the overlays. most is the maximum number of
// dispatches that a single operation may add or remove, by overlay; nil: any number.
func (g *Generator) decide(r *Result, most map[string]int) {
	overlays, snapshot := r.Input.Overlays, r.Input.Snapshot
	registered := g.poller.registrations(overlays, snapshot)
	r.Unserved = plan.FindUnserved(overlays, snapshot)
	observed := plan.Observe(overlays, snapshot, registered)
	for _, o := range observed {
		for i := range o.Overlays {
			o.Overlays[i].MaxJobs = most[o.Overlays[i].Overlay]
		}
	}
	r.Decisions = plan.DecideAll(r.Head.Commit, overlays, observed)
	registered.NoteDemand(overlays, r.Decisions)
	slices.SortFunc(r.Decisions, func(a, b plan.Decision) int { return cmp.Compare(a.Overlay, b.Overlay) })
}

// write commits the operations of a result, and returns the result updated.
func (g *Generator) write(ctx context.Context, loaded []fleet.Overlay, result Result) (Result, error) {
	head, ops, snapshot := result.Head, g.publisher.inTurn(result.Operations), result.Input.Snapshot
	next, done, err := g.publisher.commit(ctx, head, ops)
	g.memory.noteOperations(head, next, done)
	g.ids.note(done)
	if errors.Is(err, branch.ErrMoved) {
		g.poller.keep(snapshot)
	} else {
		g.poller.done()
	}
	result.Head, result.Operations, result.Repairs = next, done, g.memory.repairsOf(loaded)
	if err != nil {
		return result, fmt.Errorf("committing: %w", err)
	}
	if len(done) < len(ops) {
		result.Suspended = suspended(g.publisher.withRefused(head, loaded), result.Decisions)
		g.memory.nameEditors(ctx, head, loaded, result.Suspended)
	}
	return result, nil
}

// overlayReader reads the overlays of a head, and keeps them until the branch moves. If an
// overlay has an error, it keeps none: the error may be a transient one of reading.
type overlayReader struct {
	loader   *fleet.Loader
	commit   string // of overlays; empty: none are kept
	overlays []fleet.Overlay
}

// load returns the overlays of the head.
func (r *overlayReader) load(ctx context.Context, head branch.Head) ([]fleet.Overlay, error) {
	if r.commit == head.Commit {
		return r.overlays, nil
	}
	r.commit, r.overlays = "", nil // both together would be megabytes
	overlays, err := r.loader.LoadContext(ctx, head.Tree)
	if err != nil {
		return nil, err
	}
	if valid := !slices.ContainsFunc(overlays, func(o fleet.Overlay) bool { return o.Err() != nil }); valid {
		r.commit, r.overlays = head.Commit, overlays
	}
	return overlays, nil
}

// warnings lists the overlays whose state.yaml is ignored.
func warnings(loaded []fleet.Overlay) []Warning {
	var all []Warning
	for i := range loaded {
		o := &loaded[i]
		if err := o.InvalidState(); err != nil {
			all = append(all, Warning{Overlay: o.Name, Err: err})
		}
	}
	return all
}

// BackOff waits before a branch is read again after a conflict; lost is the number of
// conflicts. It does not wait after the first, then waits a random time that doubles up to 0.4
// s, so that several writers drift apart. Its error is that of the context.
func BackOff(ctx context.Context, clock Clock, lost int) error {
	if lost < 2 {
		return nil
	}
	longest := 100 * time.Millisecond << min(lost-2, 2)
	return clock.Sleep(ctx, rand.N(longest))
}
