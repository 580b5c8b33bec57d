package verification

import (
	"cmp"
	"context"
	"io/fs"
	"iter"
	"sync"
	"time"

	"muster/generator/fleet"
	"muster/generator/ledger"
	"muster/gitops/branch"
)

// job contains units for a worker, and the results.
type job struct {
	units []*unit
	done  chan struct{} // closed when found and err are set
	found []Finding
	err   error
}

// Verify yields a finding for each commit of a log that muster made or that changes muster's files, in
// the order of the log, newest first. Other commits are only counted. A repair that writes what
// no earlier commit explains has another finding at the end. Several commits are verified at a time. The first
// error is yielded last.
func (c Config) Verify(ctx context.Context, log iter.Seq2[ledger.Operation, error]) iter.Seq2[Finding, error] {
	return func(yield func(Finding, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		workers := max(c.Workers, 1)
		todo, order := make(chan *job), make(chan *job, 2*workers)
		var group sync.WaitGroup
		defer group.Wait()
		defer stop()
		for range workers {
			group.Go(func() { c.work(ctx, todo) })
		}
		var read error
		group.Go(func() {
			defer close(order)
			defer close(todo)
			read = c.read(ctx, log, todo, order)
		})
		repairs := newRestored(c)
		defer repairs.close()
		for j := range order {
			select {
			case <-j.done:
			case <-ctx.Done(): // perhaps no worker received it
				yield(Finding{}, ctx.Err())
				return
			}
			for i := range j.found {
				f := &j.found[i]
				c.Count.add(f)
				if err := repairs.note(ctx, f); err != nil {
					yield(Finding{}, err)
					return
				}
				if !yield(*f, nil) {
					return
				}
			}
			if j.err != nil {
				yield(Finding{}, j.err)
				return
			}
		}
		if read != nil {
			yield(Finding{}, read)
			return
		}
		for _, f := range repairs.illegal(c.Until == "" && c.Since.IsZero() && c.Count.Cut == "") {
			c.Count.move(&f)
			if !yield(f, nil) {
				return
			}
		}
	}
}

// read makes jobs of a log.
func (c Config) read(ctx context.Context, log iter.Seq2[ledger.Operation, error], todo, order chan<- *job) error {
	j := &job{done: make(chan struct{})}
	flush := func() bool {
		if len(j.units) == 0 {
			return true
		}
		for _, to := range []chan<- *job{order, todo} { // first order: every job in it is worked on
			select {
			case to <- j:
			case <-ctx.Done():
				return false
			}
		}
		j = &job{done: make(chan struct{})}
		return true
	}
	s := newSequence(c.Until, c.Since, c.Count)
	add := func(u *unit) { j.units = append(j.units, u) }
	for r, err := range log {
		if err != nil {
			return err
		}
		if !s.add(r, add) {
			break
		}
		if len(j.units) >= cmp.Or(c.Together, together) && !flush() {
			return ctx.Err()
		}
	}
	s.end(add)
	flush()
	return ctx.Err()
}

// together is the default number of commits of a job.
const together = 64

// work verifies jobs until there are no more.
func (c Config) work(ctx context.Context, todo <-chan *job) {
	w := &worker{Config: c, loaders: map[string]*loaderOf{}}
	defer func() {
		if w.files != nil {
			w.files.Close()
		}
	}()
	for j := range todo {
		j.err = w.job(ctx, j)
		close(j.done)
	}
}

// Files reads past commits. It is not safe for concurrent use: each worker has its own.
type Files interface {
	// Ahead announces commits and directories whose files will be read.
	Ahead(ctx context.Context, commits []branch.Commit, dirs []string) error
	// Tree returns the files of a commit. Its error, and those of reading files, are
	// [branch.ErrMissing] if the repository does not contain them.
	Tree(ctx context.Context, commit string) (fs.FS, error)
	// Differences returns the files below the directory top that differ between two commits. An empty
	// top is the root.
	Differences(ctx context.Context, before, after, top string) ([]branch.Difference, error)
	// ID returns the identifier of a file's content, as in differences.
	ID(content []byte) string
	// Close releases all resources.
	Close()
}

// Config is the configuration of a verification. Fields are required unless they say otherwise.
type Config struct {
	// Overlays is the directory of overlays, as in "overlays".
	Overlays string
	// Version is the version of this muster, as in the trailers.
	Version string
	// Loader returns a loader of overlays, and Files a reader of commits. Each worker calls them.
	Loader func() *fleet.Loader
	Files  func(ctx context.Context) (Files, error)
	// Workers is the number of workers. Together is the number of commits of a worker's job; zero
	// means 64.
	Workers, Together int
	// Until excludes a commit and its ancestors, and Since excludes earlier commits; the zero values
	// exclude nothing.
	Until string
	Since time.Time
	// Signatures verifies the signatures of commits with git; nil if they are not verified.
	Signatures func(ctx context.Context, commits []string) (map[string]Signature, error)
	// Count is updated while findings are yielded.
	Count *Count
}
