package generator

import (
	"context"
	"io/fs"
	"iter"
	"sync/atomic"
	"time"

	"muster/generator/ledger"
	"muster/gitops/branch"
)

// timedRepository measures how long a repository takes: for heads, pushes, the history, and files, which
// may be fetched when they are read.
type timedRepository struct {
	Repository
	clock Clock
	spent atomic.Int64 // in nanoseconds
}

// reset starts over; took returns the time since then.
func (r *timedRepository) reset()              { r.spent.Store(0) }
func (r *timedRepository) took() time.Duration { return time.Duration(r.spent.Load()) }

// measure starts to measure, until the function that it returns is called.
func (r *timedRepository) measure() func() {
	began := r.clock.Now()
	return func() { r.spent.Add(int64(r.clock.Now().Sub(began))) }
}

// Head implements [Repository].
func (r *timedRepository) Head(ctx context.Context) (branch.Head, error) {
	defer r.measure()()
	head, err := r.Repository.Head(ctx)
	return r.timed(head), err
}

// Commit implements [Repository].
func (r *timedRepository) Commit(ctx context.Context, head branch.Head, ops []ledger.Draft) (branch.Head, error) {
	defer r.measure()()
	if tree, ok := head.Tree.(timedTree); ok {
		head.Tree = tree.FS
	}
	next, err := r.Repository.Commit(ctx, head, ops)
	return r.timed(next), err
}

// HasBranch implements [Repository].
func (r *timedRepository) HasBranch(ctx context.Context, name string) (bool, error) {
	defer r.measure()()
	return r.Repository.HasBranch(ctx, name)
}

// Commits implements [branch.History]. What the caller does with a commit does not count.
func (r *timedRepository) Commits(ctx context.Context, from string, limit branch.Limit) iter.Seq2[branch.Commit, error] {
	return func(yield func(branch.Commit, error) bool) {
		stop := r.measure()
		for c, err := range r.Repository.Commits(ctx, from, limit) {
			stop()
			if !yield(c, err) {
				return
			}
			stop = r.measure()
		}
		stop()
	}
}

// File implements [branch.History].
func (r *timedRepository) File(ctx context.Context, commit, name string) ([]byte, error) {
	defer r.measure()()
	return r.Repository.File(ctx, commit, name)
}

// Edits implements [branch.History].
func (r *timedRepository) Edits(ctx context.Context, commits []branch.Commit, trees map[string]string, look branch.Selection) ([]branch.Edits, error) {
	defer r.measure()()
	return r.Repository.Edits(ctx, commits, trees, look)
}

// timed returns a head whose files are measured when they are read.
func (r *timedRepository) timed(head branch.Head) branch.Head {
	if head.Tree != nil {
		head.Tree = timedTree{head.Tree, r}
	}
	return head
}

// timedTree is the tree of a head of a timedRepository.
type timedTree struct {
	fs.FS
	repository *timedRepository
}

// Open implements [fs.FS].
func (t timedTree) Open(name string) (fs.File, error) {
	defer t.repository.measure()()
	return t.FS.Open(name)
}

// ReadFile implements [fs.ReadFileFS].
func (t timedTree) ReadFile(name string) ([]byte, error) {
	defer t.repository.measure()()
	return fs.ReadFile(t.FS, name)
}

// ReadDir implements [fs.ReadDirFS].
func (t timedTree) ReadDir(name string) ([]fs.DirEntry, error) {
	defer t.repository.measure()()
	return fs.ReadDir(t.FS, name)
}

// Stat implements [fs.StatFS].
func (t timedTree) Stat(name string) (fs.FileInfo, error) {
	defer t.repository.measure()()
	return fs.Stat(t.FS, name)
}
