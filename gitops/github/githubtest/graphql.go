package githubtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// repositoryID is the repository's number, by which a renamed one is redirected to, and
// nodeID its identifier in GraphQL.
const repositoryID, nodeID = "1296269", "R_kgDOABPHjQ"

// refUpdate is GraphQL's RefUpdate.
type refUpdate struct {
	Name, BeforeOid, AfterOid string
	Force                     bool
}

// question is the body of a request to GraphQL.
type question struct {
	Query     string
	Variables struct {
		Owner, Name, Ref string
		Input            json.RawMessage
	}
}

// graphQL answers the questions that muster asks. It takes no others.
func (s *Server) graphQL(_ *http.Request, ask question) (int, any, error) {
	switch v := ask.Variables; {
	case strings.Contains(ask.Query, "repository(owner: $owner, name: $name) { id"):
		// A renamed repository is found by its old name, as everywhere.
		if v.Owner != Owner || v.Name != Name {
			return refusedBy("NOT_FOUND", fmt.Sprintf("Could not resolve to a Repository with the name '%s/%s'.", v.Owner, v.Name))
		}
		var ref any // null: there is none of that name
		if _, err := s.git("rev-parse", "--verify", "--quiet", v.Ref); err == nil {
			ref = map[string]string{"id": refID(v.Ref)}
		}
		return http.StatusOK, map[string]any{"data": map[string]any{"repository": map[string]any{"id": nodeID, "ref": ref}}}, nil
	case strings.Contains(ask.Query, "updateRefs(input: $input)"):
		s.count("updateRefs")
		return s.updateRefs(v.Input)
	case strings.Contains(ask.Query, "createCommitOnBranch(input: $input)"):
		s.count("createCommitOnBranch")
		var in CommitInput
		strict := json.NewDecoder(bytes.NewReader(v.Input))
		strict.DisallowUnknownFields() // GraphQL takes no field that the input has not, as a mode or an author
		if err := strict.Decode(&in); err != nil {
			return refusedBy("INVALID", err.Error())
		}
		return s.appendCommit(in)
	}
	return 0, nil, problem{http.StatusBadRequest, "Problems parsing the question"}
}

// refusedBy is an answer without data.
func refusedBy(kind, words string) (int, any, error) {
	return http.StatusOK, map[string]any{"data": nil, "errors": []graphQLError{{Type: kind, Message: words}}}, nil
}

// updateRefs moves refs.
func (s *Server) updateRefs(input []byte) (int, any, error) {
	var in struct {
		RepositoryID string
		RefUpdates   []refUpdate
	}
	if err := json.Unmarshal(input, &in); err != nil {
		return 0, nil, err
	}
	if in.RepositoryID != nodeID {
		return refusedBy("NOT_FOUND", fmt.Sprintf("Could not resolve to a node with the global id of '%s'", in.RepositoryID))
	}
	for _, u := range in.RefUpdates { // one at a time is all that is asked for
		if words := s.updateRef(u); words != "" {
			return refusedBy("UNPROCESSABLE", words)
		}
	}
	return http.StatusOK, map[string]any{"data": map[string]any{"updateRefs": map[string]any{"clientMutationId": nil}}}, nil
}

// updateRef moves a ref, or says why not. "RefUpdate.beforeOid specifies that the given
// reference needs to point to the given value before performing any updates. [...] If
// RefUpdate.force is set to true, a non-fast-forward updates for the given reference
// will be allowed" (docs.github.com/graphql/reference, Git, updateRefs). The words of a
// refusal are not documented: these are not GitHub's.
func (s *Server) updateRef(u refUpdate) string {
	s.mu.Lock()
	refuse, drop := s.refuse, s.drop
	s.drop = false
	s.mu.Unlock()
	if refuse != "" {
		return refuse
	}
	s.moving.Lock()
	defer s.moving.Unlock()
	old, err := s.git("rev-parse", "--verify", "--quiet", u.Name)
	switch {
	case err != nil:
		return "Reference does not exist"
	case u.BeforeOid != "" && u.BeforeOid != old:
		return "The reference is not at beforeOid"
	}
	if _, err := s.git("merge-base", "--is-ancestor", old, u.AfterOid); err != nil && !u.Force {
		return "Update is not a fast forward"
	}
	if _, err := s.git("update-ref", u.Name, u.AfterOid, old); err != nil {
		return "The reference is not at beforeOid"
	}
	if drop {
		panic(http.ErrAbortHandler)
	}
	return ""
}
