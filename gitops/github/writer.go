package github

import (
	"cmp"
	"context"
	"errors"
	"iter"
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
	// Refused is told of a token that GitHub does not take, and reports whether Token may
	// have another; nil: it has none.
	Refused func(token string) bool
	// MayWrite reports whether the token may write; nil: nobody knows.
	MayWrite func(context.Context) error
	// Client makes the requests; nil means one with a time-out of a minute.
	Client *http.Client
	// Now is the clock by which GitHub's limits are kept.
	Now func() time.Time
	// Log is told once when GitHub does not sign the commits; nil discards.
	Log *slog.Logger
}

// Reader is a branch that is read over git.
type Reader interface {
	// Tip returns the branch's head and its tree.
	Tip(ctx context.Context) (branch.Tip, error)
	// Commits yields the commit from and those before it, the newest first.
	Commits(ctx context.Context, from string, limit branch.Limit) iter.Seq2[branch.Commit, error]
	// File returns a file as it was at a past commit.
	File(ctx context.Context, commit, name string) ([]byte, error)
	// Edits says what commits have changed against their first parents.
	Edits(ctx context.Context, commits []branch.Commit, trees map[string]string, look branch.Look) ([]branch.Edits, error)
	// Past returns the files as they were at a past commit; those in dirs will be read.
	Past(ctx context.Context, commit string, dirs []string) (branch.Tip, error)
}

// Writer is a writer of package gitops whose commits are made by GitHub: they carry
// the App as author, GitHub's time and GitHub's signature. That is also why
// the same commit made again has another identifier, and why [branch.Draft.At] is not
// that of the commit: the instant of a decision is in its trailers.
type Writer struct {
	config Config
	client *github.Client
	// head and root are the last commit written here and its tree, which
	// saves asking for it.
	head, root string
	// ids are those of GraphQL.
	ids nodeIDs
	// pace keeps what is written below GitHub's limits.
	pace pace
	// unsigned says that the log was told that GitHub does not sign the commits.
	unsigned bool
}

// NewWriter checks the configuration and returns a writer. It connects to
// nothing. A Writer is used by one goroutine at a time.
func NewWriter(c Config) (*Writer, error) {
	if c.Repository == nil || c.Token == nil || c.Owner == "" || c.Name == "" || c.Now == nil {
		return nil, errors.New("writing through GitHub's API needs a repository, its owner and name, a token and a clock")
	}
	if c.Branch == "" {
		c.Branch = "main"
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	client, err := newClient(c.API, c.Client, tokens{get: c.Token, refused: c.Refused})
	if err != nil {
		return nil, err
	}
	return &Writer{config: c, client: client, pace: pace{now: c.Now}}, nil
}

// Tip returns the branch's head and its files, read over git.
func (w *Writer) Tip(ctx context.Context) (branch.Tip, error) { return w.config.Repository.Tip(ctx) }

// Commits yields the commit from and those before it, the newest first, read
// over git.
func (w *Writer) Commits(ctx context.Context, from string, limit branch.Limit) iter.Seq2[branch.Commit, error] {
	return w.config.Repository.Commits(ctx, from, limit)
}

// File returns a file as it was at a past commit, read over git.
func (w *Writer) File(ctx context.Context, commit, name string) ([]byte, error) {
	return w.config.Repository.File(ctx, commit, name)
}

// Edits says what commits have changed against their first parents, read over git.
func (w *Writer) Edits(ctx context.Context, commits []branch.Commit, trees map[string]string, look branch.Look) ([]branch.Edits, error) {
	return w.config.Repository.Edits(ctx, commits, trees, look)
}

// Writable reports whether the App may write files at all, as far as that is known.
// [branch.ErrUnproven] says that it may, and whether a protected branch lets a commit pass
// is not asked: nothing in the API judges a push that is not made.
func (w *Writer) Writable(ctx context.Context) error {
	if w.config.MayWrite != nil {
		if err := w.config.MayWrite(ctx); err != nil {
			return err
		}
	}
	return branch.ErrUnproven
}

// Push puts the commits on the branch, all or none, which GitHub does only if it is still
// at the tip, as [git.Branch.Push] does it. One commit of plain files is one request that
// writes; see [Writer.Limits] for several.
func (w *Writer) Push(ctx context.Context, tip branch.Tip, commits []branch.Draft) (branch.Tip, error) {
	all, err := drafts(tip.Tree, commits)
	if err != nil || len(all) == 0 {
		return tip, err
	}
	if len(all) == 1 && all[0].single() {
		return w.pushSingle(ctx, tip.Commit, all[0])
	}
	return w.pushChain(ctx, tip.Commit, all)
}

// Limits returns how much one commit may change so that it is one request that writes.
// Commits are pushed one by one: each costs one such request then, and two and the share
// of a third where several are pushed together.
func (w *Writer) Limits() branch.Limits {
	return branch.Limits{OneByOne: true, Files: mostFiles, Bytes: mostBytes}
}

// landed returns the tip after a push: the commit that was made, though others may have
// built on it already.
func (w *Writer) landed(ctx context.Context, commit string) (branch.Tip, error) {
	tip, err := w.Tip(ctx)
	if err != nil || tip.Commit == commit {
		return tip, err
	}
	return w.config.Repository.Past(ctx, commit, nil)
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
