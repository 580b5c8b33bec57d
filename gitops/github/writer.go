package github

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/go-github/v50/github"

	"muster/gitops/branch"
)

// Config says which repository is written through the API. Repository, Owner,
// Name and Token are required.
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
}

// Writer is a writer of package gitops whose commits are made by GitHub: they carry
// the App as author, GitHub's time and GitHub's signature. That is also why
// the same commit made again has another identifier.
type Writer struct {
	config Config
	client *github.Client
	// head and root are the last commit written here and its tree, which
	// saves asking for it.
	head, root string
	// id is the repository's in GraphQL; empty: not known.
	id string
	// unsigned says that the log was told that GitHub does not sign the commits.
	unsigned bool
}

// NewWriter checks the configuration and returns a writer. It connects to
// nothing. A Writer is used by one goroutine at a time.
func NewWriter(c Config) (*Writer, error) {
	if c.Repository == nil || c.Token == nil || c.Owner == "" || c.Name == "" {
		return nil, errors.New("writing through GitHub's API needs a repository, its owner and name, and a token")
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
	return &Writer{config: c, client: client}, nil
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

// Push makes the commits and then moves the branch, which GitHub does only if it is
// still at the tip: all or none, as [git.Branch.Push] does it.
func (w *Writer) Push(ctx context.Context, tip branch.Tip, commits []branch.Draft) (branch.Tip, error) {
	head, root := tip.Commit, w.root
	if tip.Commit != w.head {
		commit, _, err := w.client.Git.GetCommit(ctx, w.config.Owner, w.config.Name, tip.Commit)
		if err != nil {
			return branch.Tip{}, fmt.Errorf("reading commit %.12s through GitHub's API: %w", tip.Commit, explain(err))
		}
		root = commit.GetTree().GetSHA()
	}
	files := &chainFiles{tree: tip.Tree, changed: map[string]bool{}}
	for _, c := range commits {
		var err error
		if head, root, err = w.commit(ctx, files, head, root, c); err != nil {
			return branch.Tip{}, fmt.Errorf("making a commit through GitHub's API: %w", err)
		}
	}
	if head == tip.Commit {
		return tip, nil
	}
	if err := w.move(ctx, tip.Commit, head); err != nil {
		return branch.Tip{}, fmt.Errorf("moving branch %s through GitHub's API: %w", w.config.Branch, err)
	}
	w.head, w.root = head, root
	return w.Tip(ctx)
}

// commit makes one commit, which is not in the branch yet.
func (w *Writer) commit(ctx context.Context, files *chainFiles, parent, root string, c branch.Draft) (string, string, error) {
	entries, err := w.entries(ctx, files, c.Changes)
	if err != nil || len(entries) == 0 {
		return parent, root, err
	}
	tree, _, err := w.client.Git.CreateTree(ctx, w.config.Owner, w.config.Name, root, entries)
	if err != nil {
		return parent, root, explain(err)
	}
	if tree.GetSHA() == root {
		return parent, root, nil
	}
	// No author: GitHub signs only what it makes in the App's own name.
	made, _, err := w.client.Git.CreateCommit(ctx, w.config.Owner, w.config.Name, &github.Commit{
		Message: &c.Message, Tree: tree, Parents: []*github.Commit{{SHA: &parent}},
	})
	if err != nil {
		return parent, root, explain(err)
	}
	w.noteSigned(made)
	return made.GetSHA(), tree.GetSHA(), nil
}

// noteSigned tells the log, once, that GitHub does not sign what is made here, as the
// answer to a new commit says (docs.github.com/rest/git/commits: verification).
func (w *Writer) noteSigned(made *github.Commit) {
	v := made.GetVerification()
	if w.unsigned || v.GetVerified() {
		return
	}
	w.unsigned = true
	w.config.Log.Warn("GitHub does not sign the commits", "commit", made.GetSHA(), "reason", cmp.Or(v.GetReason(), "it does not say"))
}

// entries are the changes as the API wants them. Removing what is not there
// is an error to GitHub, so it is left out.
func (w *Writer) entries(ctx context.Context, files *chainFiles, changes []branch.Change) ([]*github.TreeEntry, error) {
	var entries []*github.TreeEntry
	seen := map[string]bool{}
	for _, c := range changes {
		if err := branch.CheckPath(c.Path); err != nil {
			return nil, err
		}
		if seen[c.Path] {
			return nil, fmt.Errorf("path %q is changed twice in one commit", c.Path)
		}
		seen[c.Path] = true
		mode, exists, err := files.mode(c.Path)
		if err != nil {
			return nil, err
		}
		if c.Content == nil && !exists {
			continue
		}
		entry := &github.TreeEntry{Path: &c.Path, Mode: &mode, Type: github.String("blob")}
		switch {
		case c.Content == nil:
		case utf8.Valid(c.Content):
			entry.Content = github.String(string(c.Content))
		default: // the API's text is UTF-8
			blob, _, err := w.client.Git.CreateBlob(ctx, w.config.Owner, w.config.Name, &github.Blob{
				Content: github.String(base64.StdEncoding.EncodeToString(c.Content)), Encoding: github.String("base64"),
			})
			if err != nil {
				return nil, explain(err)
			}
			entry.SHA = blob.SHA
		}
		entries = append(entries, entry)
	}
	for _, c := range changes {
		files.changed[c.Path] = c.Content != nil
	}
	slices.SortFunc(entries, func(a, b *github.TreeEntry) int { return strings.Compare(a.GetPath(), b.GetPath()) })
	return entries, nil
}

// chainFiles are the files as the commits of a chain leave them.
type chainFiles struct {
	tree    fs.FS
	changed map[string]bool // whether it was written, or else removed
}

// mode returns the mode that a file has, or would have if it were new.
func (f *chainFiles) mode(path string) (mode string, exists bool, err error) {
	for i, c := range path {
		if c != '/' {
			continue
		}
		written, touched := f.changed[path[:i]]
		info, err := fs.Stat(f.tree, path[:i])
		if touched && written || !touched && err == nil && !info.IsDir() {
			return "", false, fmt.Errorf("%s cannot be a file and a directory at once", path[:i])
		}
	}
	info, err := fs.Stat(f.tree, path)
	there, touched := f.changed[path]
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "100644", touched && there, nil
	case err != nil:
		return "", false, err
	case info.IsDir():
		return "", false, fmt.Errorf("%s cannot be a file and a directory at once", path)
	case info.Mode()&0o111 != 0 && !(touched && !there):
		return "100755", true, nil
	}
	return "100644", !touched || there, nil
}
