package github

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/go-github/v50/github"

	"muster/gitops/branch"
)

// Config selects the repository that is written through the API. Repository, Owner, Name, Token and Now
// are required.
type Config struct {
	// Repository is the same repository over git, which reads it.
	Repository Reader
	// Owner and Name are the repository's on GitHub.
	Owner, Name string
	// Branch is the branch; empty means main.
	Branch string
	// API is the address of GitHub's API; empty means https://api.github.com/.
	API string
	// Token returns a token that may write the repository's contents.
	Token func(context.Context) (string, error)
	// Refused is called with a token that GitHub rejects, and reports whether Token may return
	// another; nil means never.
	Refused func(token string) bool
	// MayWrite returns an error if the token may not write; nil if that is unknown.
	MayWrite func(context.Context) error
	// Client makes the requests; nil means one with a time-out of a minute.
	Client *http.Client
	// Now is the clock for GitHub's limits.
	Now func() time.Time
	// Log records once that GitHub does not sign the commits; nil discards.
	Log *slog.Logger
}

// Reader is a branch that is read over git.
type Reader interface {
	branch.History
	// Head returns the branch's head and its tree.
	Head(ctx context.Context) (branch.Head, error)
	// HasBranch reports whether the repository has a branch of that name.
	HasBranch(ctx context.Context, name string) (bool, error)
	// Past returns a past commit; its files in dirs will be read.
	Past(ctx context.Context, commit string, dirs []string) (branch.Head, error)
}

// Writer is a [branch.Writer] whose commits GitHub makes: they have the App as author, GitHub's time and
// GitHub's signature. So a repeated commit has another identifier, and [branch.Draft.At] is ignored:
// the time of a decision is in the trailers.
type Writer struct {
	// Reader reads the branch, over git.
	Reader
	config Config
	client *github.Client
	// head and root are the last commit that was written and its tree, which saves a request.
	head, root string
	// ids are those of GraphQL.
	ids nodeIDs
	// pace keeps writes below GitHub's limits.
	pace pace
	// unsigned reports whether the log already records that GitHub does not sign the commits.
	unsigned bool
}

// NewWriter validates the address of the API and returns a writer. It does not connect. One goroutine
// uses a Writer at a time.
func NewWriter(c Config) (*Writer, error) {
	c.Branch = cmp.Or(c.Branch, "main")
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	client, err := newClient(c.API, c.Client, tokens{get: c.Token, refused: c.Refused})
	if err != nil {
		return nil, err
	}
	return &Writer{Reader: c.Repository, config: c, client: client, pace: pace{now: c.Now}}, nil
}

// Writable returns an error if the App is known not to be able to write files at all.
// [branch.ErrUnproven] means that it may write, but that a protected branch may still refuse
// a commit: the API cannot check a push without making it.
func (w *Writer) Writable(ctx context.Context) error {
	if w.config.MayWrite != nil {
		if err := w.config.MayWrite(ctx); err != nil {
			return err
		}
	}
	return branch.ErrUnproven
}

// Push adds the commits to the branch, all or none, like [git.Branch.Push]. GitHub accepts them only if
// the branch is still at head. One commit of plain files takes one writing request; see
// [Writer.Limits] for several.
func (w *Writer) Push(ctx context.Context, head branch.Head, commits []branch.Draft) (branch.Head, error) {
	all, err := drafts(head.Tree, commits)
	if err != nil || len(all) == 0 {
		return head, err
	}
	if len(all) == 1 && all[0].single() {
		return w.pushSingle(ctx, head.Commit, all[0])
	}
	return w.pushChain(ctx, head.Commit, all)
}

// Limits returns how much a commit may change so that it takes one writing request. Commits are pushed
// one by one, since each takes two such requests and part of a third if several are pushed together.
func (w *Writer) Limits() branch.Limits {
	return branch.Limits{OneByOne: true, Files: maxFiles, Bytes: maxBytes}
}

// landed returns the new commit as the head after a push, even if other writers have
// already added commits to it.
func (w *Writer) landed(ctx context.Context, before, commit string) (branch.Head, error) {
	head, err := w.Head(ctx)
	if err == nil && head.Commit != commit {
		head, err = w.Past(ctx, commit, nil)
	}
	if err != nil {
		return branch.Head{}, &branch.Unsettled{Before: before, After: commit, Err: err}
	}
	return head, nil
}

// noteSigned logs once that GitHub does not sign the commits, which the response to a new commit shows.
func (w *Writer) noteSigned(commit string, verified bool, reason string) {
	if w.unsigned || verified {
		return
	}
	w.unsigned = true
	w.config.Log.Warn("GitHub does not sign the commits", "commit", commit, "reason", cmp.Or(reason, "it gives no reason"))
}
