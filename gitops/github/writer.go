package github

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"
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
	// Client makes the requests; nil means one with a time-out of a minute.
	Client *http.Client
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
	client, err := newClient(c.API, c.Client, c.Token)
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

// Push makes the commits and then moves the branch, which GitHub does only if
// they descend from its head: all or none, as
// [git.Branch.Push] does it.
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
	return made.GetSHA(), tree.GetSHA(), nil
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

// settleTimeout bounds the look at the branch after a failed move.
const settleTimeout = 15 * time.Second

// move moves the branch from one commit to another. When GitHub says no, or
// nothing, the branch is read: it tells what really became of it.
func (w *Writer) move(ctx context.Context, from, to string) error {
	ref := "refs/heads/" + w.config.Branch
	_, _, err := w.client.Git.UpdateRef(ctx, w.config.Owner, w.config.Name, &github.Reference{
		Ref: &ref, Object: &github.GitObject{SHA: &to},
	}, false)
	if err == nil {
		return nil
	}
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	now, _, readErr := w.client.Git.GetRef(look, w.config.Owner, w.config.Name, ref)
	if readErr != nil {
		return fmt.Errorf("%w (whether the commits are in the branch could not be read: %w)", explain(err), explain(readErr))
	}
	switch now.GetObject().GetSHA() {
	case to:
		return nil
	case from:
		var answer *github.ErrorResponse
		if errors.As(err, &answer) && answer.Response != nil && answer.Response.StatusCode < 500 {
			return &branch.Refused{Message: explain(err).Error()}
		}
		return explain(err)
	}
	// Others may have built on the commits already.
	compared, _, readErr := w.client.Repositories.CompareCommits(look, w.config.Owner, w.config.Name, to, w.config.Branch, nil)
	if readErr == nil && compared.GetStatus() == "ahead" {
		return nil
	}
	return fmt.Errorf("%w: %w", branch.ErrMoved, explain(err))
}
