// Package generator is the tick: the one straight line from what Buildkite
// needs to a commit that a syncer can apply.
//
//	tip      ← Repository.Tip             branch head; fetched only when it moved
//	overlays ← Load(tip)                  policies, templates, dispatches
//	observed ← Buildkite.Observe          agents first, then jobs
//	decision ← plan.Decide                a pure function of the three
//	acts     ← Render(overlays, decision) nothing changes: done
//	commit   ← Repository.Commit          compare-and-swap; lost race: look again, decide again
//
// Nothing is kept between ticks but what saves time: a restarted muster, or a
// second one beside it, goes on from the tip.
package generator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"muster/generator/kustomize"
	"muster/generator/ledger"
	"muster/generator/manifest"
	"muster/generator/plan"
	"muster/gitops/branch"
)

// Repository is the fleet repository.
type Repository interface {
	// Tip returns the branch's head and its tree.
	Tip(ctx context.Context) (branch.Tip, error)
	// Commit writes one commit per act on top of the tip, all of them or none,
	// and returns the new tip. It returns [branch.ErrMoved] when another writer
	// was first.
	Commit(ctx context.Context, tip branch.Tip, acts []ledger.Act) (branch.Tip, error)
	// Limits returns what one act should not exceed; a repair may.
	Limits() branch.Limits
	branch.History
}

// Buildkite says which jobs are pending and which agents are connected.
type Buildkite interface {
	// Snapshot reads the agents first and then the jobs. One that takes several
	// calls returns a [plan.RetryError] until it is complete; then its At is the time of
	// the first of them.
	Snapshot(ctx context.Context, query plan.Query) (plan.Snapshot, error)
}

// Clock tells the time and lets it pass.
type Clock interface {
	Now() time.Time
	// Sleep returns after d, or with the context's error when that ends first.
	Sleep(ctx context.Context, d time.Duration) error
}

// Config is what a Generator is made of. Every field but those said to be
// optional is needed.
type Config struct {
	Repository Repository
	Buildkite  Buildkite
	Clock      Clock
	// Overlays is the directory of overlays, as in "overlays".
	Overlays string
	// Fleet tells the fleet repository apart from others of the same Buildkite
	// organisation, as [FleetTag] makes it; empty where there is only one.
	Fleet string
	// Namespace is the namespace of muster's own pod, in which no Job may be; empty if muster
	// does not run in a pod.
	Namespace string
	// Build is how templates are built, optional: without it, in this process. A
	// build that takes longer than Patience goes on while others are decided on,
	// and its overlay is suspended meanwhile; without it, all wait.
	Build    kustomize.Builder
	Patience time.Duration
	// DryRun does everything but commit.
	DryRun bool
	// Log is optional.
	Log *slog.Logger
	// Done is called after each tick of [Generator.Run]; optional.
	Done func(Result, error)
	// Wake ends the pauses of [Generator.Run] early; optional.
	Wake *Wake
	// Watch is told of each tick of [Generator.Run]; optional.
	Watch Watcher
}

// Generator runs ticks. It is not safe for concurrent use. What it keeps between ticks only
// saves time, or remembers what others may have changed; each part owns its own.
type Generator struct {
	cfg       Config
	overlays  overlayReader
	drift     *drift
	poller    *poller
	publisher *publisher
	reporter  *reporter
	trigger   *trigger
}

// New returns a Generator.
func New(cfg Config) *Generator {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	loader := manifest.NewLoader(cfg.Overlays).InFleet(cfg.Fleet).Reserve(cfg.Namespace)
	if cfg.Build != nil {
		loader.BuildWith(cfg.Build, cfg.Patience).WaitWith(cfg.Clock.Sleep)
	}
	rep := &reporter{log: cfg.Log, clock: cfg.Clock, watch: cfg.Watch, dryRun: cfg.DryRun}
	poll := &poller{source: cfg.Buildkite, clock: cfg.Clock, log: cfg.Log}
	past := &pastLog{history: cfg.Repository, clock: cfg.Clock, log: cfg.Log}
	next := &trigger{clock: cfg.Clock, log: cfg.Log, wake: cfg.Wake}
	if cfg.Wake != nil {
		next.pace.Every = cfg.Wake.Every
	}
	return &Generator{
		cfg: cfg, overlays: overlayReader{loader: loader}, poller: poll, reporter: rep, trigger: next,
		drift:     &drift{past: past, agents: poll, clock: cfg.Clock, log: cfg.Log, dir: cfg.Overlays, ordered: map[string]ordered{}},
		publisher: &publisher{repository: cfg.Repository, clock: cfg.Clock, reporter: rep},
	}
}

// Result is what one tick found and did.
type Result struct {
	// Tip is the branch's head after the tick.
	Tip branch.Tip
	// Decisions has one entry for each overlay that could be read.
	Decisions []plan.Decision
	// Acts are the commits written, or that would be written in a dry run.
	Acts []ledger.Act
	// Landed are commits of an earlier tick, whose push broke off before the server
	// said what became of it: they are in git.
	Landed []ledger.Act
	// Suspended are the overlays for which nothing is dispatched, by name.
	Suspended []Suspended
	// Warnings are files that are ignored; the next repair removes them.
	Warnings []Warning
	// Unserved are the queues with pending jobs that no overlay serves.
	Unserved []plan.Unserved
	// Races is how often another writer was first.
	Races int
	// Looked is what was decided on.
	Looked Looked
	// Metrics is why Buildkite's metrics cannot be read; nil: they can, or are not.
	Metrics error
}

// Suspended is an overlay for which nothing is dispatched.
type Suspended struct {
	// Overlay is its name.
	Overlay string
	// Why is the reason.
	Why plan.Suspension
}

// Warning is a file of an overlay that is ignored.
type Warning struct {
	// Overlay is its name.
	Overlay string
	// Err says which file, what is wrong with it and what follows.
	Err error
}

// invalid suspends an overlay because of its files.
func invalid(overlay string, err error) Suspended {
	return Suspended{Overlay: overlay, Why: plan.Suspension{Code: plan.Invalid, Finding: err.Error()}}
}

// ErrRaces is returned by a tick that lost the race on every try.
var ErrRaces = errors.New("another writer was first on every try")

const (
	// tries is how often one tick tries before it gives up, where that takes long, and
	// mostTries where it does not: one who pushes ten times a second loses against one of
	// several short tries. After that, the next tick is not far.
	tries, mostTries = 5, 16
	// patience is what takes long, from the first lost race on.
	patience = 4 * time.Second
)

// Tick looks once, decides once and commits once. After a lost race it does so
// again, a few times. After an error, the acts in the result are those that were
// committed all the same; suspended overlays are no error but are listed in the result.
func (g *Generator) Tick(ctx context.Context) (Result, error) {
	var result Result
	g.poller.beginTick()
	g.reporter.begin()
	defer g.reporter.end()
	var done, landed []ledger.Act // by the tries so far: acts may be pushed apart
	var lost time.Time            // the first race
	for try := 0; ; try++ {
		g.reporter.enter("")
		if err := BackOff(ctx, g.cfg.Clock, try); err != nil {
			return result, err
		}
		races := result.Races
		var err error
		result, err = g.attempt(ctx)
		result.Races += races
		done, landed = append(done, result.Acts...), append(landed, result.Landed...)
		result.Acts, result.Landed = done, landed
		if !errors.Is(err, branch.ErrMoved) {
			return result, err
		}
		result.Races++
		now := g.cfg.Clock.Now()
		if try == 0 {
			lost = now
		}
		g.poller.lost(now)
		if try+1 == mostTries || try+1 >= tries && now.Sub(lost) >= patience {
			g.poller.forget()
			return result, fmt.Errorf("%w (%d)", ErrRaces, try+1)
		}
		level := slog.LevelInfo
		if try >= tries {
			level = slog.LevelDebug
		}
		g.cfg.Log.Log(ctx, level, "another writer was first, looking again", "head", result.Tip.Commit, "try", try+1)
	}
}

// attempt is the tick itself.
func (g *Generator) attempt(ctx context.Context) (Result, error) {
	g.reporter.enter(StepTip)
	tip, err := g.cfg.Repository.Tip(ctx)
	g.reporter.gitAnswered(err)
	if err != nil {
		return Result{}, fmt.Errorf("fleet repository: %w", err)
	}
	result := Result{Tip: tip, Landed: g.publisher.landed(tip)}
	g.reporter.enter(StepLoad)
	fleet, err := g.overlays.load(ctx, tip)
	switch {
	case ctx.Err() != nil: // which says nothing of the files
		return result, fmt.Errorf("reading the overlays: %w", ctx.Err())
	case err != nil:
		return result, fmt.Errorf("no overlays can be read below %q of the repository (muster init writes some, --overlays says where they are): %w", g.cfg.Overlays, err)
	}
	if len(fleet) == 0 {
		dir := cmp.Or(g.cfg.Overlays, ".")
		result.Suspended = []Suspended{invalid(dir, fmt.Errorf("%s: has no scaling.yaml below it, so that nothing is scaled: muster init writes one, and --overlays says where they are", dir))}
		return result, nil
	}
	if fleet, err = g.drift.withEdits(ctx, tip, fleet); err != nil {
		return result, err
	}
	fleet = g.publisher.withRefused(tip, fleet)
	result.Warnings = warnings(fleet)
	overlays := manifest.Decidable(fleet)
	if len(overlays) == 0 {
		result.Suspended = suspended(fleet, nil)
		return result, nil
	}
	most := g.publisher.mostJobs(fleet)
	now := g.cfg.Clock.Now().UTC().Truncate(time.Second)
	g.reporter.enter(StepObserve)
	if g.poller.first() {
		result.Metrics = g.trigger.readBaseline(ctx, now, overlays)
	}
	snapshot, err := g.poller.observe(ctx, now, overlays)
	g.reporter.buildkiteAnswered(err)
	if err != nil {
		return result, err
	}
	if snapshot.Counted != nil {
		fleet = withShared(fleet)
		overlays = manifest.Decidable(fleet)
	}
	result.Looked = Looked{Overlays: overlays, Snapshot: snapshot}
	g.reporter.enter(StepDecide)
	g.decide(&result, most)
	g.reporter.enter(StepRender)
	acts, failed := render(fleet, result.Decisions, g.cfg.Repository.Limits().OneByOne)
	g.drift.past.suspect(ctx, tip, acts)
	result.Acts = acts
	result.Suspended = append(suspended(fleet, result.Decisions), failed...)
	if len(acts) == 0 || g.cfg.DryRun {
		g.poller.done()
		return result, nil
	}
	g.reporter.enter(StepCommit)
	return g.write(ctx, fleet, result)
}

// decide makes the decisions on what was looked at. most is how many dispatches one act may
// add or remove, by overlay; nil: any number.
func (g *Generator) decide(r *Result, most map[string]int) {
	overlays, snapshot := r.Looked.Overlays, r.Looked.Snapshot
	registered := g.poller.registrations(overlays, snapshot)
	r.Unserved = plan.FindUnserved(overlays, snapshot)
	observed := plan.Observe(overlays, snapshot, registered)
	for _, o := range observed {
		for i := range o.Overlays {
			o.Overlays[i].MostJobs = most[o.Overlays[i].Overlay]
		}
	}
	r.Decisions = plan.DecideAll(r.Tip.Commit, overlays, observed)
	slices.SortFunc(r.Decisions, func(a, b plan.Decision) int { return cmp.Compare(a.Overlay, b.Overlay) })
}

// write commits the acts of a result, and returns it as it is then.
func (g *Generator) write(ctx context.Context, fleet []manifest.Overlay, result Result) (Result, error) {
	tip, acts, snapshot := result.Tip, g.publisher.inTurn(result.Acts), result.Looked.Snapshot
	next, done, err := g.publisher.commit(ctx, tip, acts)
	g.drift.noteActs(tip, next, done)
	if errors.Is(err, branch.ErrMoved) {
		g.poller.keep(snapshot)
	} else {
		g.poller.done()
	}
	result.Tip, result.Acts = next, done
	if err != nil {
		return result, fmt.Errorf("committing: %w", err)
	}
	if len(done) < len(acts) {
		result.Suspended = suspended(g.publisher.withRefused(tip, fleet), result.Decisions)
	}
	return result, nil
}

// overlayReader reads the overlays of a tip.
type overlayReader struct {
	loader *manifest.Loader
	loaded loaded
}

// loaded are the overlays of the last tip, which need not be read again while
// the branch stays where it is. With an overlay in error the commit is empty,
// for the error may be one of reading that goes by itself.
type loaded struct {
	commit   string
	overlays []manifest.Overlay
}

// load returns the overlays of the tip.
func (r *overlayReader) load(ctx context.Context, tip branch.Tip) ([]manifest.Overlay, error) {
	if r.loaded.commit != tip.Commit {
		r.loaded = loaded{} // both together would be megabytes
		overlays, err := r.loader.LoadContext(ctx, tip.Tree)
		if err != nil {
			return nil, err
		}
		r.loaded = loaded{overlays: overlays}
		if valid := !slices.ContainsFunc(overlays, func(o manifest.Overlay) bool { return o.Err() != nil }); valid {
			r.loaded.commit = tip.Commit
		}
	}
	return r.loaded.overlays, nil
}
