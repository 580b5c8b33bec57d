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

// settings are what an owner may set otherwise.
type settings struct {
	contents string // read, write or none
	unsigned bool
	moved    bool
}

// permissions are those of a token (docs.github.com/rest/apps/apps, "Create an
// installation access token for an app": "permissions": {"issues": "write", "contents":
// "read"}). What the App may not do at all is not listed.
func (s settings) permissions() map[string]string {
	all := map[string]string{"metadata": "read"}
	if s.contents != "none" {
		all["contents"] = s.contents
	}
	return all
}

// verification is the result of checking a signature (docs.github.com/rest/git/commits,
// "Create a commit": "Signature verification object": verified, reason).
func (s settings) verification() map[string]any {
	if s.unsigned {
		return map[string]any{"verified": false, "reason": "unsigned", "signature": nil, "payload": nil}
	}
	return map[string]any{"verified": true, "reason": "valid"}
}

// Permit sets what the App may do with files: read, write or none.
func (s *Server) Permit(contents string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set.contents = contents
}

// LeaveUnsigned makes the server sign no commits from now on.
func (s *Server) LeaveUnsigned() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set.unsigned = true
}

// Rename gives the repository another name. The old one answers with where it is now
// (docs.github.com/rest, "Best practices for using the REST API", "Follow redirects":
// 301, 302 and 307, "the request should be repeated verbatim").
func (s *Server) Rename() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set.moved = true
}

func (s *Server) renamed(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		moved := s.set.moved
		s.mu.Unlock()
		if !moved {
			next(w, r)
			return
		}
		to := s.URL + "repositories/" + repositoryID + strings.TrimPrefix(r.URL.Path, "/repos/"+Owner+"/"+Name)
		w.Header().Set("Location", to)
		reply(w, http.StatusMovedPermanently, map[string]string{"message": "Moved Permanently", "url": to})
	}
}

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
		if v.Ref == "refs/heads/main" {
			ref = map[string]string{"id": refID}
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
