package github

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/go-github/v50/github"

	"muster/gitops/branch"
)

// move moves the branch from one commit to another.
func (w *Writer) move(ctx context.Context, from, to string) error {
	err := w.swap(ctx, from, to)
	if err == nil {
		return nil
	}
	_, err = w.settle(ctx, err, &branch.Unsettled{Before: from, After: to})
	return err
}

// settle finds out the result of a request that should move the branch and failed with err. It returns
// the last commit of the push if it has landed.
func (w *Writer) settle(ctx context.Context, err error, u *branch.Unsettled) (string, error) {
	var wait *branch.Limited
	if errors.As(err, &wait) {
		return "", err // GitHub has not processed it
	}
	var said refusal
	var answer *github.ErrorResponse
	u.Err = err
	var reported branch.Answer
	if errors.As(err, &said) || errors.As(err, &answer) && answer.Response != nil && answer.Response.StatusCode < 500 {
		reported.Refused = &branch.Refused{Message: err.Error()}
	}
	return u.Settle(ctx, reported, w.headID, w.Reader)
}

// headID reads the branch's head through the API.
func (w *Writer) headID(ctx context.Context) (string, error) {
	now, _, err := w.client.Git.GetRef(ctx, w.config.Owner, w.config.Name, "refs/heads/"+w.config.Branch)
	if err != nil {
		return "", explain(err)
	}
	return now.GetObject().GetSHA(), nil
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
