package evidence

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"muster/gitops/git/remote"
)

// GitHub is a repository on GitHub, as an App writes it.
type GitHub struct {
	// API is the address of the REST API.
	API         string
	Owner, Name string
	Token       func(context.Context) (string, error)
}

// gitHubBeliefs are the beliefs that commits of a GitHub App show.
var gitHubBeliefs = []string{
	"github-app-commits-verified", "github-commit-compare-and-swap", "github-commit-input", "github-commit-message", "github-commit-size", "github-update-refs",
}

// gitHubRequests is the maximum number of requests to GitHub's API, with one for the token.
const gitHubRequests = 10

// One commit's maximum that muster relies on.
const (
	mostFiles = 150
	mostBytes = 2_000_000
)

// post sends a request to GitHub's API. An error means that no answer was received, or one about a limit.
func (g *GitHub) post(ctx context.Context, path string, body any) (answer record, status int, err error) {
	token, err := g.Token(ctx)
	if err != nil {
		return nil, 0, err
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, 0, err
	}
	base := strings.TrimSuffix(g.API, "/") + "/"
	if path == "graphql" {
		base = strings.TrimSuffix(base, "v3/")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, bytes.NewReader(raw))
	if err != nil {
		return nil, 0, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	response, err := (&http.Client{Timeout: 2 * requestTimeout}).Do(request)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	switch status := response.StatusCode; {
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusTooManyRequests:
		return nil, status, statusError{"GitHub's API", status}
	}
	return decode(text), response.StatusCode, err
}

// ask sends a request to GraphQL. It returns its data, and the type of the first error; "?" if it has none.
func (g *GitHub) ask(ctx context.Context, query string, variables map[string]any) (data record, failed string, err error) {
	answer, status, err := g.post(ctx, "graphql", map[string]any{"query": query, "variables": variables})
	if problems, _ := answer["errors"].([]any); len(problems) > 0 {
		first, _ := problems[0].(map[string]any)
		if failed = cmp.Or(record(first).text("type"), "?"); failed == "RATE_LIMITED" {
			err = errors.New("GitHub limits the requests")
		}
	} else if status != http.StatusOK {
		failed = fmt.Sprint(status)
	}
	return answer.object("data"), failed, err
}

const (
	queryIDs     = `query($owner: String!, $name: String!, $ref: String!) { repository(owner: $owner, name: $name) { id ref(qualifiedName: $ref) { id } } }`
	appendCommit = `mutation($input: CreateCommitOnBranchInput!) { createCommitOnBranch(input: $input) { commit { oid signature { isValid state } } } }`
	updateRefs   = `mutation($input: UpdateRefsInput!) { updateRefs(input: $input) { clientMutationId } }`
)

// gitHub makes commits on the branch of the run as a GitHub App. stale is not its head.
func (w *writer) gitHub(ctx context.Context, name string, stale plumbing.Hash) {
	if w.GitHub == nil {
		return
	}
	if err := w.appCommits(ctx, name, stale); err != nil {
		w.missing("GitHub's API: "+reason(err), gitHubBeliefs...)
	}
}

func (w *writer) appCommits(ctx context.Context, name string, stale plumbing.Hash) error {
	const swap, input, text, size, verified, refs = "github-commit-compare-and-swap", "github-commit-input", "github-commit-message", "github-commit-size", "github-app-commits-verified", "github-update-refs"
	g := w.GitHub
	head := func() (plumbing.Hash, error) {
		at, session, err := w.git.HeadOf(ctx, name)
		if session != nil {
			_ = session.Close()
		}
		return at, err
	}
	before, err := head()
	if err != nil {
		return err
	}
	ids, _, err := g.ask(ctx, queryIDs, map[string]any{"owner": g.Owner, "name": g.Name, "ref": "refs/heads/" + name})
	repository := ids.object("repository")
	if err == nil && repository.object("ref").text("id") == "" {
		err = absent("the branch is not found")
	}
	if err != nil {
		return err
	}
	const headline = "Test commit by the API"
	body := "[skip ci]\n" + marker(w.Write.ID) + ".\n\n  Indented, \"quoted\", <b>&amp; ümläut  \n\nEnd: of the message"
	type file map[string]string
	commit := func(at plumbing.Hash, files ...file) (oid plumbing.Hash, made record, failed string, err error) {
		data, failed, err := g.ask(ctx, appendCommit, map[string]any{"input": map[string]any{
			"branch": map[string]string{"id": repository.object("ref").text("id")}, "expectedHeadOid": at.String(),
			"message": map[string]string{"headline": headline, "body": body}, "fileChanges": map[string]any{"additions": files},
		}})
		made = data.object("createCommitOnBranch").object("commit")
		return plumbing.NewHash(made.text("oid")), made, failed, err
	}
	content := make([]byte, 512)
	for i := range content {
		content[i] = byte(i)
	}
	content = append(content, "\r\n\n"...)
	odd := file{"path": "bytes", "contents": base64.StdEncoding.EncodeToString(content)}

	// A commit on another one than the head.
	oid, _, failed, err := commit(stale, odd)
	if err != nil {
		return err
	}
	switch at, err := head(); {
	case err != nil:
		return err
	case at != before || !oid.IsZero():
		w.found[swap] = contradicted("a commit is made although the branch is at another commit than expectedHeadOid")
		before = at
	case failed != "STALE_DATA":
		w.found[swap] = contradicted("the error's type is %s", word(strings.ToLower(failed)))
	default:
		w.found[swap] = confirmed("an error of the type STALE_DATA, and the branch does not move")
	}

	// A file with a mode, and then one without.
	oid, _, _, err = commit(before, file{"path": "mode", "contents": "", "mode": "100755"})
	if err != nil {
		return err
	}
	if !oid.IsZero() {
		w.found[input] = contradicted("a file with a mode is accepted")
		before = oid
	}
	oid, made, failed, err := commit(before, odd)
	if err != nil {
		return err
	}
	if oid.IsZero() {
		w.missing(fmt.Sprintf("the commit is refused (%s)", word(strings.ToLower(failed))), input, text, size, verified, refs)
		return nil
	}
	if signature := made.object("signature"); signature.kind("isValid") == "true" {
		w.found[verified] = confirmed("isValid of the commit's signature is true")
	} else {
		w.found[verified] = contradicted("isValid of the commit's signature is %s", signature.kind("isValid"))
	}
	if err := w.compareCommit(ctx, oid, headline+"\n\n"+body, content); err != nil {
		w.missing(reason(err), input, text)
	}

	// As many files and bytes as muster sends at once.
	before = oid
	var files []file
	for i := range mostFiles {
		part := bytes.Repeat(fmt.Appendf(nil, "%03d muster live\n", i), mostBytes/mostFiles/16)
		files = append(files, file{"path": fmt.Sprintf("size/%03d", i), "contents": base64.StdEncoding.EncodeToString(part)})
	}
	oid, _, failed, err = commit(before, files...)
	switch {
	case err != nil:
		return err
	case oid.IsZero():
		w.found[size] = contradicted("a commit of %d files with 2 MB is refused (%s)", mostFiles, word(strings.ToLower(failed)))
	default:
		w.found[size] = confirmed("a commit of %d files with 2 MB is accepted", mostFiles)
		before = oid
	}

	// A move of the branch to a descendant, but from another commit.
	found, err := w.git.objects(ctx, before)
	if err != nil {
		return err
	}
	next, status, err := g.post(ctx, fmt.Sprintf("repos/%s/%s/git/commits", g.Owner, g.Name), map[string]any{
		"message": headline + "\n\n" + body, "tree": treeOf(found).String(), "parents": []string{before.String()},
	})
	if err != nil || status != http.StatusCreated {
		return cmp.Or(err, error(statusError{"a new commit", status}))
	}
	_, failed, err = g.ask(ctx, updateRefs, map[string]any{"input": map[string]any{"repositoryId": repository.text("id"), "refUpdates": []any{
		map[string]any{"name": "refs/heads/" + name, "beforeOid": stale.String(), "afterOid": next.text("sha"), "force": false},
	}}})
	if err != nil {
		return err
	}
	switch at, err := head(); {
	case err != nil:
		return err
	case at != before:
		w.found[refs] = contradicted("the branch moves although it is not at beforeOid")
	case failed == "":
		w.found[refs] = contradicted("a move from another commit than beforeOid returns no error")
	default:
		w.found[refs] = confirmed("a move from another commit than beforeOid returns an error, and the branch does not move")
	}
	return nil
}

// objects reads one object, and others if the server cannot send it alone.
func (g gitHost) objects(ctx context.Context, wanted plumbing.Hash) (content []byte, err error) {
	var all []packed
	err = g.fetch(ctx, g.commitRequest(wanted), &all)
	for _, o := range all {
		if plumbing.ComputeHash(o.kind, o.content) == wanted {
			return o.content, nil
		}
	}
	return nil, cmp.Or(err, remote.ErrNotOurs)
}

// treeOf returns the tree of a commit.
func treeOf(commit []byte) plumbing.Hash {
	line, _, _ := strings.Cut(string(commit), "\n")
	return plumbing.NewHash(strings.TrimPrefix(line, "tree "))
}

// compareCommit compares a commit with the message and the content of the file that it was made with.
func (w *writer) compareCommit(ctx context.Context, oid plumbing.Hash, message string, content []byte) error {
	const input, text = "github-commit-input", "github-commit-message"
	commit, err := w.git.objects(ctx, oid)
	if err != nil {
		return err
	}
	_, got, _ := strings.Cut(string(commit), "\n\n")
	if strings.TrimSuffix(got, "\n") != strings.TrimSuffix(message, "\n") {
		w.found[text] = contradicted("the message has %d bytes, and differs from that of %d bytes in the request", len(got), len(message))
	} else {
		w.found[text] = confirmed("the message of %d bytes is unchanged", len(message))
	}
	tree, err := w.git.objects(ctx, treeOf(commit))
	if err != nil {
		return err
	}
	blob := plumbing.ComputeHash(plumbing.BlobObject, content)
	if !bytes.Contains(tree, append([]byte("100644 bytes\x00"), blob[:]...)) {
		w.found[input] = contradicted("the commit has the file with another content or mode")
	}
	w.missingConfirmed(input, "a file with all bytes is unchanged, with mode 100644; one with a mode is refused")
	return nil
}
