package github

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"muster/gitops/branch"
)

// appendCommit makes a commit on the branch, if it is at expectedHeadOid: "The git commit
// oid expected at the head of the branch prior to the commit"
// (docs.github.com/graphql/reference/commits, createCommitOnBranch). It "does not support
// specifying the author or committer of the commit", has no modes, and GitHub signs it.
const appendCommit = `mutation($input: CreateCommitOnBranchInput!) { createCommitOnBranch(input: $input) { commit { oid signature { isValid state } } } }`

// pushSingle pushes one commit with one request.
func (w *Writer) pushSingle(ctx context.Context, from string, d draft) (branch.Head, error) {
	if err := w.pace.take(1); err != nil {
		return branch.Head{}, err
	}
	made, err := w.append(ctx, from, d)
	if err != nil {
		return branch.Head{}, fmt.Errorf("committing to branch %s through GitHub's API: %w", w.config.Branch, w.limited(err))
	}
	return w.landed(ctx, from, made)
}

// append makes the commit and returns its identifier. After an error, it reads the branch to find out
// whether the commit was made.
func (w *Writer) append(ctx context.Context, from string, d draft) (string, error) {
	if err := w.identify(ctx); err != nil {
		return "", err
	}
	var data struct {
		CreateCommitOnBranch struct {
			Commit struct {
				OID       string
				Signature struct {
					IsValid bool
					State   string
				}
			}
		}
	}
	err := w.ask(ctx, appendCommit, map[string]any{"input": w.input(from, d)}, &data)
	if commit := data.CreateCommitOnBranch.Commit; err == nil && commit.OID != "" {
		w.noteSigned(commit.OID, commit.Signature.IsValid, cmp.Or(strings.ToLower(commit.Signature.State), "unsigned"))
		return commit.OID, nil
	}
	if err == nil {
		err = errors.New("GitHub's answer has no commit")
	}
	var said refusal
	if errors.As(err, &said) && said.kind == staleData {
		return "", fmt.Errorf("%w: %w", branch.ErrMoved, err)
	}
	w.ids = nodeIDs{} // it may be another repository's by now
	return w.settle(ctx, err, &branch.Unsettled{Before: from, Message: d.message})
}

// staleData is the type of the error of a conflict, which has the status 200: as seen by
// donaldgifford/repo-guardian and others, not documented.
const staleData = "STALE_DATA"

// input returns a CreateCommitOnBranchInput.
func (w *Writer) input(from string, d draft) map[string]any {
	type addition struct {
		Path     string `json:"path"`
		Contents string `json:"contents"`
	}
	type deletion struct {
		Path string `json:"path"`
	}
	additions, deletions := []addition{}, []deletion{}
	for _, c := range d.changes {
		if c.content == nil {
			deletions = append(deletions, deletion{c.path})
			continue
		}
		// "File contents must be provided in full [...] encoded using RFC 4648 compliant
		// base64" (docs.github.com/graphql/reference/commits, FileChanges).
		additions = append(additions, addition{c.path, base64.StdEncoding.EncodeToString(c.content)})
	}
	headline, body, _ := d.headline()
	return map[string]any{
		"branch": map[string]string{"id": w.ids.ref}, "expectedHeadOid": from,
		"message":     map[string]string{"headline": headline, "body": body},
		"fileChanges": map[string]any{"additions": additions, "deletions": deletions},
	}
}
