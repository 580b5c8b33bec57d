package github

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/go-github/v50/github"

	"muster/gitops/branch"
)

// Config says which repository is written through the API. Repository, Owner,
// Name, Token and Now are required.
type Config struct {
	// Repository is the same repository over git, which is how it is read.
	Repository Reader
	// Owner and Name are the repository's on GitHub.
	Owner, Name string
	// Branch is the branch; empty means main.
	Branch string
	// API is the address of GitHub's API; empty means https://api.github.com/.
	API string
	// Token returns a token that may write the repository's contents.
	Token func(context.Context) (string, error)
	// Refused is called with a token that GitHub refuses, and reports whether Token may
	// return another; nil: never.
	Refused func(token string) bool
	// MayWrite reports whether the token may write; nil: nobody knows.
	MayWrite func(context.Context) error
	// Client makes the requests; nil means one with a time-out of a minute.
	Client *http.Client
	// Now is the clock by which GitHub's limits are kept.
	Now func() time.Time
	// Log records once that GitHub does not sign the commits; nil discards.
	Log *slog.Logger
}

// Reader is a branch that is read over git.
type Reader interface {
	branch.History
	// Head returns the branch's head and its tree.
	Head(ctx context.Context) (branch.Head, error)
	// Past returns the files as they were at a past commit; those in dirs will be read.
	Past(ctx context.Context, commit string, dirs []string) (branch.Head, error)
}

// Writer is a writer of package gitops whose commits are made by GitHub: they carry
// the App as author, GitHub's time and GitHub's signature. That is also why
// a repeated commit has another identifier, and why [branch.Draft.At] is not
// that of the commit: the instant of a decision is in its trailers.
type Writer struct {
	// Reader reads the branch, over git.
	Reader
	config Config
	client *github.Client
	// head and root are the last commit written here and its tree, which
	// saves asking for it.
	head, root string
	// ids are those of GraphQL.
	ids nodeIDs
	// pace keeps what is written below GitHub's limits.
	pace pace
	// unsigned reports whether the log already records that GitHub does not sign the commits.
	unsigned bool
}

// NewWriter checks the configuration and returns a writer. It connects to
// nothing. A Writer is used by one goroutine at a time.
func NewWriter(c Config) (*Writer, error) {
	if c.Repository == nil || c.Token == nil || c.Owner == "" || c.Name == "" || c.Now == nil {
		return nil, errors.New("writing through GitHub's API needs a repository, its owner and name, a token and a clock")
	}
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

// Push adds the commits to the branch, all or none, as [git.Branch.Push] does. GitHub accepts
// them only if the branch is still at tip. One commit of plain files takes one writing
// request; see [Writer.Limits] for several.
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

// Limits returns how much one commit may change so that it is one request that writes.
// Commits are pushed one by one: each costs one such request then, and two and the share
// of a third where several are pushed together.
func (w *Writer) Limits() branch.Limits {
	return branch.Limits{OneByOne: true, Files: maxFiles, Bytes: maxBytes}
}

// landed returns the new commit as the head after a push, even if other writers have
// already added commits to it.
func (w *Writer) landed(ctx context.Context, commit string) (branch.Head, error) {
	head, err := w.Head(ctx)
	if err != nil || head.Commit == commit {
		return head, err
	}
	return w.Past(ctx, commit, nil)
}

// noteSigned tells the log, once, that GitHub does not sign what is made here, as the
// answer to a new commit says.
func (w *Writer) noteSigned(commit string, verified bool, reason string) {
	if w.unsigned || verified {
		return
	}
	w.unsigned = true
	w.config.Log.Warn("GitHub does not sign the commits", "commit", commit, "reason", cmp.Or(reason, "it does not say"))
}
