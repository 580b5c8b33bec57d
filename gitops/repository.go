package gitops

import (
	"context"
	"iter"

	"muster/gitops/branch"
	"muster/gitops/git"
	"muster/gitops/git/remote"
)

// Repository is the fleet repository over git: one branch of one remote. It is
// a [Writer]. It may be used from several goroutines, which then take turns.
type Repository struct {
	branch *git.Branch
}

// New checks the configuration and returns the repository. It does not
// connect to anything.
func New(c Config) (*Repository, error) {
	config, err := c.client()
	if err != nil {
		return nil, err
	}
	b, err := git.New(config)
	if err != nil {
		return nil, withRemedy(err)
	}
	return &Repository{branch: b}, nil
}

// String is the repository's address without anything secret.
func (r *Repository) String() string { return r.branch.String() }

// Stats returns what was exchanged with the server. It waits for nobody.
func (r *Repository) Stats() remote.Stats { return r.branch.Stats() }

// Head returns the commit at the branch's head and its files. While the
// head has not moved that is one request. The tree reads lazily, with ctx.
func (r *Repository) Head(ctx context.Context) (branch.Head, error) {
	head, err := r.branch.Head(ctx)
	return head, withRemedy(err)
}

// Push puts a chain of commits on tip in one push, as [git.Branch.Push] does.
func (r *Repository) Push(ctx context.Context, head branch.Head, commits []branch.Draft) (branch.Head, error) {
	next, err := r.branch.Push(ctx, head, commits)
	return next, withRemedy(err)
}

// Propose puts a chain of commits on tip into a new branch, as [git.Branch.Propose] does.
func (r *Repository) Propose(ctx context.Context, head branch.Head, commits []branch.Draft, name string) (commit, said string, err error) {
	commit, said, err = r.branch.Propose(ctx, head, commits, name)
	return commit, said, withRemedy(err)
}

// Writable asks the server whether it would let this user move the branch, as
// [git.Branch.Writable] does.
func (r *Repository) Writable(ctx context.Context) error {
	return withRemedy(r.branch.Writable(ctx))
}

// Limits returns what one commit should not exceed, as [git.Branch.Limits] does.
func (r *Repository) Limits() branch.Limits { return r.branch.Limits() }

// Commits yields the commit from, or the branch's head if that is empty, and
// those before it, the newest first, as [git.Branch.Commits] does.
func (r *Repository) Commits(ctx context.Context, from string, limit branch.Limit) iter.Seq2[branch.Commit, error] {
	return func(yield func(branch.Commit, error) bool) {
		for c, err := range r.branch.Commits(ctx, from, limit) {
			if !yield(c, withRemedy(err)) {
				return
			}
		}
	}
}

// File returns a file as it was at a past commit, as [git.Branch.File] does.
func (r *Repository) File(ctx context.Context, commit, name string) ([]byte, error) {
	content, err := r.branch.File(ctx, commit, name)
	return content, withRemedy(err)
}

// Past returns the files as they were at a past commit, as [git.Branch.Past] does.
func (r *Repository) Past(ctx context.Context, commit string, dirs []string) (branch.Head, error) {
	head, err := r.branch.Past(ctx, commit, dirs)
	return head, withRemedy(err)
}

// Edits says what commits have changed against their parents, as [git.Branch.Edits]
// does.
func (r *Repository) Edits(ctx context.Context, commits []branch.Commit, trees map[string]string, look branch.Selection) ([]branch.Edits, error) {
	edits, err := r.branch.Edits(ctx, commits, trees, look)
	return edits, withRemedy(err)
}

// Archive returns a reader of many past commits, as [git.Branch.Archive] does.
func (r *Repository) Archive(ctx context.Context) (*git.Archive, error) {
	a, err := r.branch.Archive(ctx)
	return a, withRemedy(err)
}
