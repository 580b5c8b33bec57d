package githubtest

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
)

// CommitInput is GraphQL's CreateCommitOnBranchInput. It has no author, no committer, no
// date and no file modes: "this mutation does not support specifying the author or
// committer of the commit and will not add support for this in the future"
// (docs.github.com/graphql/reference/commits, createCommitOnBranch, "Authorship"); that
// files are written with mode 100644 is what its users found (babarot/gh-infra, pull
// request 167; changesets/ghcommit, pull request 45).
type CommitInput struct {
	// Branch is the branch's identifier. GitHub also takes its repository and name.
	Branch struct{ ID string }
	// Message is the first line and the rest.
	Message         struct{ Headline, Body string }
	ExpectedHeadOid string
	FileChanges     struct {
		Additions []struct{ Path, Contents string }
		Deletions []struct{ Path string }
	}
}

// refID returns the identifier of a ref in GraphQL.
func refID(name string) string {
	return "REF_" + base64.RawURLEncoding.EncodeToString([]byte(name))
}

// refOf returns the ref of an identifier; empty if it is invalid.
func refOf(id string) string {
	name, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(id, "REF_"))
	if err != nil || refID(string(name)) != id {
		return ""
	}
	return string(name)
}

// graphQLError is an entry of "errors" in a GraphQL response. The field "type" is an extension of
// GitHub.
type graphQLError struct {
	Type    string   `json:"type"`
	Path    []string `json:"path,omitempty"`
	Message string   `json:"message"`
}

// appendCommit is createCommitOnBranch: "Appends a commit to the given branch as the
// authenticated user. This mutation creates a commit whose parent is the HEAD of the
// provided branch and also updates that branch to point to the new commit".
func (s *Server) appendCommit(in CommitInput) (int, any, error) {
	if kind, words := in.problem(); words != "" {
		return refusedAppend(kind, words)
	}
	s.mu.Lock()
	refuse, drop, dropBefore, after, unsigned := s.refuse, s.drop, s.dropBefore, s.after, s.set.unsigned
	s.drop, s.dropBefore, s.after = false, false, nil
	s.mu.Unlock()
	if after == nil {
		after = func() {}
	}
	if dropBefore {
		after()
		panic(http.ErrAbortHandler)
	}
	s.moving.Lock()
	defer s.moving.Unlock()
	ref := refOf(in.Branch.ID)
	head, err := s.git("rev-parse", "--verify", "--quiet", ref)
	if err != nil {
		return refusedAppend("NOT_FOUND", "Could not resolve to a branch.")
	}
	if in.ExpectedHeadOid != head {
		// The type and the words are what its users saw, with the status 200 (donaldgifford/repo-guardian, INV-0022, "Spike 1").
		return refusedAppend("STALE_DATA", fmt.Sprintf("Expected branch to point to %q but it did not.  Pull and try again.", in.ExpectedHeadOid))
	}
	if refuse != "" {
		return refusedAppend("UNPROCESSABLE", refuse)
	}
	tree, kind, words := s.changed(head, in)
	if words != "" {
		return refusedAppend(kind, words)
	}
	sha, err := s.writeCommit(tree, []string{head}, in.message())
	if err != nil {
		return 0, nil, err
	}
	if _, err := s.git("update-ref", ref, sha, head); err != nil {
		// The words of a race that firstsun-dev/git-files-sync saw; their type is not known.
		return refusedAppend("UNPROCESSABLE", fmt.Sprintf("Ref %s is at %s but expected %s", ref, sha, head))
	}
	after()
	if drop {
		panic(http.ErrAbortHandler)
	}
	commit := map[string]any{"oid": sha, "signature": map[string]any{"isValid": true, "state": "VALID"}}
	if unsigned {
		commit["signature"] = nil
	}
	return http.StatusOK, map[string]any{"data": map[string]any{"createCommitOnBranch": map[string]any{"commit": commit}}}, nil
}

// refusedAppend is the answer where no commit was made.
func refusedAppend(kind, words string) (int, any, error) {
	return http.StatusOK, map[string]any{"data": map[string]any{"createCommitOnBranch": nil},
		"errors": []graphQLError{{kind, []string{"createCommitOnBranch"}, words}}}, nil
}

// problem returns the problem of the input, independent of the head; empty if valid.
func (in CommitInput) problem() (kind, words string) {
	switch {
	case refOf(in.Branch.ID) == "":
		return "NOT_FOUND", "Could not resolve to a branch."
	case in.Message.Headline == "" || strings.Contains(in.Message.Headline, "\n"):
		return "UNPROCESSABLE", "A commit message headline is one line." // GitHub's words are not known
	}
	return "", ""
}

// message is the commit's. How the parts are joined is not documented, and was not tried on
// GitHub: this is how a message is written, less the newline at its end, which GitHub may or
// may not add.
func (in CommitInput) message() string {
	if in.Message.Body == "" {
		return in.Message.Headline
	}
	return in.Message.Headline + "\n\n" + in.Message.Body
}

// changed makes the tree of a commit, or says why not.
func (s *Server) changed(head string, in CommitInput) (tree, kind, words string) {
	adds, removes := in.FileChanges.Additions, in.FileChanges.Deletions
	size, paths, lines := 0, map[string]bool{}, []string{}
	exists, err := s.listing(head)
	if err != nil {
		return "", "INTERNAL", err.Error()
	}
	for _, d := range removes {
		// "path values must be unique across all additions and deletions provided" (FileChanges).
		if paths[d.Path] {
			return "", "UNPROCESSABLE", "A path was given twice: " + d.Path
		}
		paths[d.Path] = true
		if !exists[d.Path] {
			// The words that users of Keystatic and firstsun-dev/git-files-sync saw; of the type,
			// others simulate this one.
			return "", "NOT_FOUND", fmt.Sprintf("A path was requested for deletion which does not exist as of commit oid `%s`", head)
		}
		lines = append(lines, fmt.Sprintf("0 %s\t%s\n", strings.Repeat("0", 40), d.Path))
	}
	var contents [][]byte
	for _, a := range adds {
		// "RFC 4648 compliant base64, i.e. correct padding is required [...]. Invalid base64
		// encoding will be rejected with a validation error" (FileChanges, "Encoding").
		content, err := base64.StdEncoding.Strict().DecodeString(a.Contents)
		switch {
		case paths[a.Path]:
			return "", "UNPROCESSABLE", "A path was given twice: " + a.Path
		case err != nil || strings.ContainsAny(a.Contents, "\r\n"):
			return "", "UNPROCESSABLE", "The contents are not base64: " + a.Path
		case a.Path == "" || strings.HasPrefix(a.Path, "/"): // "so paths are not slash-prefixed"
			return "", "UNPROCESSABLE", "A path contains a leading slash: " + a.Path
		}
		paths[a.Path] = true
		size += len(content)
		contents = append(contents, content)
	}
	if tooLarge(len(adds)+len(removes), size) {
		return "", "INTERNAL", "Something went wrong while executing your query. This may be the result of a timeout."
	}
	blobs, err := s.writeBlobs(contents)
	if err != nil {
		return "", "INTERNAL", err.Error()
	}
	for i, blob := range blobs {
		lines = append(lines, fmt.Sprintf("100644 %s\t%s\n", blob, adds[i].Path))
	}
	slices.Sort(lines) // removals first: they begin with a zero
	tree, err = s.writeTree(head, strings.Join(lines, ""))
	if err != nil {
		return "", "UNPROCESSABLE", err.Error()
	}
	return tree, "", ""
}

// writeTree makes a tree of another one, or of that of a commit, and of lines for git
// update-index --index-info.
func (s *Server) writeTree(base, lines string) (string, error) {
	index, err := os.CreateTemp(s.dir, "index")
	if err != nil {
		return "", err
	}
	_ = index.Close()
	defer os.Remove(index.Name())
	sha := ""
	for _, args := range [][]string{{"read-tree", base}, {"update-index", "--index-info"}, {"write-tree"}} {
		out, err := s.gitIndex(index.Name(), lines, args...)
		if err != nil {
			return "", problem{http.StatusUnprocessableEntity, "GitRPC::BadObjectState: " + out}
		}
		sha = out
	}
	return sha, nil
}

// writeCommit makes a commit in the App's name and with GitHub's time: no author and no
// date can be given, or the commit is not signed.
func (s *Server) writeCommit(tree string, parents []string, message string) (string, error) {
	raw := fmt.Sprintf("tree %s\n", tree)
	for _, p := range parents {
		raw += fmt.Sprintf("parent %s\n", p)
	}
	raw += fmt.Sprintf("author muster[bot] <4711+muster[bot]@users.noreply.github.com> %[1]d +0000\ncommitter GitHub <noreply@github.com> %[1]d +0000\n\n%[2]s", s.now().Unix(), message)
	sha, err := s.repository.GitInput([]byte(raw), "hash-object", "-t", "commit", "-w", "--stdin")
	return strings.TrimSpace(sha), err
}
