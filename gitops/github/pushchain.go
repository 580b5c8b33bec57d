package github

import (
	"context"
	"encoding/base64"
	"fmt"
	"unicode/utf8"

	"github.com/google/go-github/v50/github"

	"muster/gitops/branch"
)

// pushChain makes the commits one after the other, and then moves the branch to the last. Unlike
// pushSingle, it supports several commits at once, executable files, many files, and any message.
func (w *Writer) pushChain(ctx context.Context, from string, all []draft) (branch.Head, error) {
	if err := w.pace.take(chainWrites(all)); err != nil {
		return branch.Head{}, err
	}
	head, root := from, w.root
	if from != w.head {
		commit, _, err := w.client.Git.GetCommit(ctx, w.config.Owner, w.config.Name, from)
		if err != nil {
			return branch.Head{}, fmt.Errorf("reading commit %.12s through GitHub's API: %w", from, w.limited(explain(err)))
		}
		root = commit.GetTree().GetSHA()
	}
	for _, d := range all {
		var err error
		if head, root, err = w.commit(ctx, head, root, d); err != nil {
			return branch.Head{}, fmt.Errorf("making a commit through GitHub's API: %w", w.limited(explain(err)))
		}
	}
	if head == from {
		return w.Head(ctx)
	}
	if err := w.move(ctx, from, head); err != nil {
		return branch.Head{}, fmt.Errorf("moving branch %s through GitHub's API: %w", w.config.Branch, w.limited(err))
	}
	w.head, w.root = head, root
	return w.landed(ctx, from, head)
}

// chainWrites returns how many writing requests a chain takes: the trees, the commit and
// the binary files of each draft, and the move of the branch.
func chainWrites(all []draft) int {
	n := 1
	for _, d := range all {
		n += len(parts(d.changes)) + 1
		for _, c := range d.changes {
			if c.content != nil && !utf8.Valid(c.content) {
				n++
			}
		}
	}
	return n
}

// commit makes a commit outside the branch. Its tree is made in parts, each on top of the one before.
func (w *Writer) commit(ctx context.Context, parent, root string, d draft) (string, string, error) {
	tree := root
	for _, part := range parts(d.changes) {
		entries, err := w.entries(ctx, part)
		if err != nil {
			return parent, root, err
		}
		made, _, err := w.client.Git.CreateTree(ctx, w.config.Owner, w.config.Name, tree, entries)
		if err != nil {
			return parent, root, err
		}
		tree = made.GetSHA()
	}
	if tree == root {
		return parent, root, nil
	}
	// No author: GitHub signs only what it makes in the App's own name.
	made, _, err := w.client.Git.CreateCommit(ctx, w.config.Owner, w.config.Name, &github.Commit{
		Message: &d.message, Tree: &github.Tree{SHA: &tree}, Parents: []*github.Commit{{SHA: &parent}},
	})
	if err != nil {
		return parent, root, err
	}
	// docs.github.com/rest/git/commits: verification
	w.noteSigned(made.GetSHA(), made.GetVerification().GetVerified(), made.GetVerification().GetReason())
	return made.GetSHA(), tree, nil
}

// entries returns the changes in the API's format.
func (w *Writer) entries(ctx context.Context, changes []change) ([]*github.TreeEntry, error) {
	var entries []*github.TreeEntry
	for _, c := range changes {
		entry := &github.TreeEntry{Path: &c.path, Mode: &c.mode, Type: github.String("blob")}
		switch {
		case c.content == nil:
		case utf8.Valid(c.content):
			entry.Content = github.String(string(c.content))
		default: // the API's text is UTF-8
			blob, _, err := w.client.Git.CreateBlob(ctx, w.config.Owner, w.config.Name, &github.Blob{
				Content: github.String(base64.StdEncoding.EncodeToString(c.content)), Encoding: github.String("base64"),
			})
			if err != nil {
				return nil, err
			}
			entry.SHA = blob.SHA
		}
		entries = append(entries, entry)
	}
	return entries, nil
}
