package github

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/go-github/v50/github"

	"muster/gitops/branch"
)

// settleTimeout limits the time to read the branch after a failed move.
const settleTimeout = 15 * time.Second

// move moves the branch from one commit to another. After an error, it reads the branch to find out
// whether it moved.
func (w *Writer) move(ctx context.Context, from, to string) error {
	err := w.swap(ctx, from, to)
	if err == nil {
		return nil
	}
	_, err = w.settle(ctx, from, err, func(since *github.CommitsComparison) string {
		if slices.ContainsFunc(since.Commits, func(c *github.RepositoryCommit) bool { return c.GetSHA() == to }) {
			return to
		}
		return ""
	})
	return err
}

// settle finds out the result of a request that should move the branch away from a commit and failed
// with err. Others may have committed on top: ours finds the new commit among those since then, the
// oldest first, and returns its identifier, or nothing.
func (w *Writer) settle(ctx context.Context, from string, err error, ours func(since *github.CommitsComparison) string) (string, error) {
	var wait held
	if errors.As(err, &wait) {
		return "", err // GitHub has not processed it
	}
	patience := settleTimeout
	if ctx.Err() != nil {
		patience /= 3 // somebody waits for the end of the process
	}
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	now, _, readErr := w.client.Git.GetRef(look, w.config.Owner, w.config.Name, "refs/heads/"+w.config.Branch)
	if readErr != nil {
		return "", fmt.Errorf("%w (whether the commits are in the branch could not be read: %w)", err, explain(readErr))
	}
	if now.GetObject().GetSHA() == from {
		var said refusal
		var answer *github.ErrorResponse
		if errors.As(err, &said) || errors.As(err, &answer) && answer.Response != nil && answer.Response.StatusCode < 500 {
			return "", &branch.Refused{Message: err.Error()}
		}
		return "", err
	}
	compared, _, readErr := w.client.Repositories.CompareCommits(look, w.config.Owner, w.config.Name, from, now.GetObject().GetSHA(), nil)
	if readErr == nil && compared.GetStatus() == "ahead" {
		if commit := ours(compared); commit != "" {
			return commit, nil
		}
	}
	if readErr != nil {
		err = fmt.Errorf("%w (%w: %w)", err, branch.ErrUnsettled, explain(readErr))
	}
	return "", fmt.Errorf("%w: %w", branch.ErrMoved, err)
}

// The requests to GraphQL. The REST API moves a branch to any descendant, and so also over a branch
// that was reset meanwhile. updateRefs compares: "RefUpdate.beforeOid specifies that the given reference
// needs to point to the given value before performing any updates" (docs.github.com/graphql/reference,
// Git, updateRefs).
const (
	askIDs = `query($owner: String!, $name: String!, $ref: String!) { repository(owner: $owner, name: $name) { id ref(qualifiedName: $ref) { id } } }`
	swap   = `mutation($input: UpdateRefsInput!) { updateRefs(input: $input) { clientMutationId } }`
)

// nodeIDs are the identifiers of the repository and of its branch in GraphQL; zero if unknown.
type nodeIDs struct{ repository, ref string }

// identify requests the identifiers once.
func (w *Writer) identify(ctx context.Context) error {
	if w.ids != (nodeIDs{}) {
		return nil
	}
	var found struct {
		Repository struct {
			ID  string
			Ref struct{ ID string }
		}
	}
	ref := "refs/heads/" + w.config.Branch
	if err := w.ask(ctx, askIDs, map[string]any{"owner": w.config.Owner, "name": w.config.Name, "ref": ref}, &found); err != nil {
		return err
	}
	if found.Repository.Ref.ID == "" {
		return fmt.Errorf("GitHub's %s/%s has no branch %s", w.config.Owner, w.config.Name, w.config.Branch)
	}
	w.ids = nodeIDs{found.Repository.ID, found.Repository.Ref.ID}
	return nil
}

// swap moves the branch if it is at from.
func (w *Writer) swap(ctx context.Context, from, to string) error {
	if err := w.identify(ctx); err != nil {
		return err
	}
	update := map[string]any{"name": "refs/heads/" + w.config.Branch, "beforeOid": from, "afterOid": to, "force": false}
	err := w.ask(ctx, swap, map[string]any{"input": map[string]any{"repositoryId": w.ids.repository, "refUpdates": []any{update}}}, nil)
	if err != nil {
		w.ids = nodeIDs{} // it may be another repository's by now
	}
	return err
}
