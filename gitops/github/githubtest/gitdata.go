package githubtest

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
)

func (s *Server) git(args ...string) (string, error) {
	out, err := s.repository.Git(args...)
	return strings.TrimSpace(out), err
}

// gitIndex runs git with an index of its own and an input.
func (s *Server) gitIndex(index, input string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = s.repository.Dir, append(cmd.Environ(), "GIT_INDEX_FILE="+index)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (s *Server) commit(sha string) (map[string]any, error) {
	tree, err := s.git("rev-parse", "--verify", "--quiet", sha+"^{tree}")
	if err != nil {
		return nil, problem{http.StatusNotFound, "Not Found"}
	}
	return map[string]any{"sha": sha, "tree": map[string]string{"sha": tree}}, nil
}

func (s *Server) getCommit(r *http.Request) (int, any, error) {
	body, err := s.commit(r.PathValue("sha"))
	return http.StatusOK, body, err
}

// commitInput is a commit to be made.
type commitInput struct {
	Message, Tree     string
	Parents           []string
	Author, Committer any
}

func (s *Server) createCommit(_ *http.Request, ask commitInput) (int, any, error) {
	if ask.Author != nil || ask.Committer != nil {
		return 0, nil, problem{http.StatusUnprocessableEntity, "a commit with an author of its own is not verified"}
	}
	sha, err := s.writeCommit(ask.Tree, ask.Parents, ask.Message)
	if err != nil {
		return 0, nil, err
	}
	body, err := s.commit(sha)
	if err != nil {
		return 0, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	body["verification"] = s.set.verification()
	return http.StatusCreated, body, nil
}

func (s *Server) createBlob(_ *http.Request, ask struct{ Content, Encoding string }) (int, any, error) {
	content := []byte(ask.Content)
	if ask.Encoding == "base64" {
		var err error
		if content, err = base64.StdEncoding.DecodeString(ask.Content); err != nil {
			return 0, nil, err
		}
	}
	blobs, err := s.writeBlobs([][]byte{content})
	if err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, map[string]string{"sha": blobs[0]}, nil
}

// writeBlobs writes files, and returns their identifiers.
func (s *Server) writeBlobs(contents [][]byte) ([]string, error) {
	var stream bytes.Buffer
	for i, content := range contents {
		fmt.Fprintf(&stream, "blob\nmark :%[1]d\ndata %[2]d\n%[3]s\nget-mark :%[1]d\n", i+1, len(content), content)
	}
	out, err := s.repository.GitInput(stream.Bytes(), "fast-import", "--quiet")
	return strings.Fields(out), err
}

// listing returns the paths of the files and directories of a tree.
func (s *Server) listing(tree string) (map[string]bool, error) {
	out, err := s.git("ls-tree", "-r", "-t", "-z", "--name-only", tree)
	paths := map[string]bool{}
	for path := range strings.SplitSeq(out, "\x00") {
		paths[path] = true
	}
	return paths, err
}

// treeInput is a tree to be made of another.
type treeInput struct {
	BaseTree string `json:"base_tree"`
	Tree     []treeEntry
}

func (s *Server) createTree(_ *http.Request, ask treeInput) (int, any, error) {
	var contents [][]byte
	size := 0
	for _, e := range ask.Tree {
		if e.Content != nil {
			size += len(*e.Content)
			contents = append(contents, []byte(*e.Content))
		}
	}
	if tooLarge(len(ask.Tree), size) {
		// GitHub's words (googleapis/code-suggester, issue 397; qoomon/actions--create-commit, issue 90).
		return 0, nil, problem{http.StatusUnprocessableEntity, "Sorry, your request timed out.  It's likely that your input was too large to process.  Consider building the tree incrementally, or building the commits you need in a local clone of the repository and then pushing them to GitHub."}
	}
	lines, err := s.indexLines(ask, contents)
	if err != nil {
		return 0, nil, err
	}
	sha, err := s.writeTree(ask.BaseTree, lines)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, map[string]string{"sha": sha}, nil
}

// treeEntry is one file of a tree to be made: with its content, or that of a
// blob, or neither, which removes it.
type treeEntry struct {
	Path, Mode string
	SHA        *string
	Content    *string
}

// indexLines returns the entries of a tree in the format of git update-index --index-info, with the
// contents of those that have one.
func (s *Server) indexLines(ask treeInput, contents [][]byte) (string, error) {
	blobs, err := s.writeBlobs(contents)
	if err != nil {
		return "", err
	}
	exists, err := s.listing(ask.BaseTree)
	if err != nil {
		return "", err
	}
	var lines strings.Builder
	for _, e := range ask.Tree {
		switch {
		case e.Content != nil:
			fmt.Fprintf(&lines, "%s %s\t%s\n", e.Mode, blobs[0], e.Path)
			blobs = blobs[1:]
		case e.SHA != nil:
			fmt.Fprintf(&lines, "%s %s\t%s\n", e.Mode, *e.SHA, e.Path)
		case exists[e.Path]:
			fmt.Fprintf(&lines, "0 %s\t%s\n", strings.Repeat("0", 40), e.Path)
		default:
			return "", problem{http.StatusUnprocessableEntity, "GitRPC::BadObjectState"}
		}
	}
	return lines.String(), nil
}

func (s *Server) getRef(r *http.Request) (int, any, error) {
	sha, err := s.git("rev-parse", "--verify", "--quiet", "refs/heads/"+r.PathValue("branch"))
	if err != nil {
		return 0, nil, problem{http.StatusNotFound, "Not Found"}
	}
	object := map[string]string{"type": "commit", "sha": sha}
	return http.StatusOK, map[string]any{"ref": "refs/heads/" + r.PathValue("branch"), "object": object}, nil
}
