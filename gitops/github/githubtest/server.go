// Package githubtest is the part of GitHub's API that muster writes through,
// over a bare repository on this machine: git data, and the tokens of a
// GitHub App. It answers as the real one does, refusals included.
package githubtest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"muster/gitops/gitserver"
)

// Server answers for the repository acme/fleet.
type Server struct {
	// URL is the API's address.
	URL string
	// AppID and Installation are those of the App that may write, and KeyFile
	// its key.
	AppID        string
	Installation int64
	KeyFile      string

	repository gitserver.Repository
	dir        string
	key        *rsa.PrivateKey
	http       *httptest.Server

	mu sync.Mutex
	// now is the server's clock.
	now    func() time.Time
	tokens map[string]time.Time
	issued int
	refuse string
	drop   bool
	set    settings
	// moving lets one reference move at a time.
	moving sync.Mutex
	pulls
}

// Owner and Name are the repository's.
const (
	Owner = "acme"
	Name  = "fleet"
)

// Serve answers for a repository until Close; the App's key is written into
// dir. now is the clock that tokens and proofs are judged by.
func Serve(r gitserver.Repository, dir string, now func() time.Time) (*Server, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	s := &Server{
		AppID: "4711", Installation: 42, KeyFile: filepath.Join(dir, "app.pem"),
		repository: r, dir: dir, key: key, now: now, tokens: map[string]time.Time{},
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	if err := os.WriteFile(s.KeyFile, pem.EncodeToMemory(block), 0o600); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /app/installations/{id}/access_tokens", s.issue)
	for pattern, answer := range map[string]func(*http.Request) (int, any, error){
		"GET /git/commits/{sha}":      s.getCommit,
		"POST /git/commits":           s.createCommit,
		"POST /git/trees":             s.createTree,
		"POST /git/blobs":             s.createBlob,
		"GET /git/ref/heads/{branch}": s.getRef,
		"GET /compare/{base}":         s.compare,

		"POST /pulls":                     s.openPull,
		"GET /pulls":                      s.listPulls,
		"GET /pulls/{number}":             s.getPull,
		"GET /issues/{number}/comments":   s.listComments,
		"POST /issues/{number}/comments":  s.createComment,
		"PATCH /issues/comments/{number}": s.editComment,
		"POST /check-runs":                s.createCheck,
		"PATCH /check-runs/{number}":      s.updateCheck,
	} {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" /repos/"+Owner+"/"+Name+path, s.renamed(s.authorized(answer)))
		mux.HandleFunc(method+" /repositories/"+repositoryID+path, s.authorized(answer))
	}
	mux.HandleFunc("POST /graphql", s.authorized(s.graphQL))
	s.http = httptest.NewServer(mux)
	s.URL = s.http.URL + "/"
	return s, nil
}

// Close stops the server.
func (s *Server) Close() { s.http.Close() }

// Refuse makes the server refuse to move any branch, with these words.
func (s *Server) Refuse(words string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = words
}

// DropNext makes the server close the connection instead of answering, after
// it has moved a branch the next time.
func (s *Server) DropNext() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop = true
}

// Revoke makes every token bad that was given out.
func (s *Server) Revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
}

// Issued is how many tokens were given out.
func (s *Server) Issued() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.issued
}

// Valid reports whether a token is valid now.
func (s *Server) Valid(token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	until, ok := s.tokens[token]
	return ok && s.now().Before(until) || token == PersonalToken || token == ForkToken
}

type problem struct {
	status  int
	message string
}

func (p problem) Error() string { return p.message }

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func (s *Server) authorized(answer func(*http.Request) (int, any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.Valid(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")) {
			reply(w, http.StatusUnauthorized, map[string]string{"message": "Bad credentials"})
			return
		}
		if s.limited(w) {
			return
		}
		status, body, err := answer(r)
		if err != nil {
			var p problem
			if !errors.As(err, &p) {
				p = problem{http.StatusUnprocessableEntity, err.Error()}
			}
			reply(w, p.status, map[string]string{"message": p.message})
			return
		}
		if l, ok := body.(linked); ok {
			if l.link != "" {
				w.Header().Set("Link", l.link)
			}
			body = l.body
		}
		reply(w, status, body)
	}
}

// issue checks the App's proof and gives a token for an hour.
func (s *Server) issue(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.proven(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")); err != nil {
		reply(w, http.StatusUnauthorized, map[string]string{"message": err.Error()})
		return
	}
	if r.PathValue("id") != fmt.Sprint(s.Installation) {
		reply(w, http.StatusNotFound, map[string]string{"message": "Not Found"})
		return
	}
	s.issued++
	token, until := fmt.Sprintf("ghs_token%d", s.issued), s.now().Add(time.Hour)
	s.tokens[token] = until
	reply(w, http.StatusCreated, map[string]any{"token": token, "expires_at": until.UTC().Format(time.RFC3339), "permissions": s.set.permissions()})
}

func (s *Server) proven(jwt string) error {
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		return fmt.Errorf("A JSON web token could not be decoded")
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if rsa.VerifyPKCS1v15(&s.key.PublicKey, crypto.SHA256, sum[:], signature) != nil {
		return fmt.Errorf("A JSON web token could not be decoded")
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return err
	}
	var claims struct {
		Issued  int64  `json:"iat"`
		Expires int64  `json:"exp"`
		Issuer  string `json:"iss"`
	}
	if err := json.Unmarshal(text, &claims); err != nil {
		return err
	}
	now := s.now().Unix()
	if claims.Issuer != s.AppID || claims.Issued > now || claims.Expires <= now || claims.Expires > now+600 {
		return fmt.Errorf("'Expiration time' claim ('exp') is too far in the future, or the token is not the App's")
	}
	return nil
}

func (s *Server) git(args ...string) (string, error) {
	out, err := s.repository.Git(args...)
	return strings.TrimSpace(out), err
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

func (s *Server) createCommit(r *http.Request) (int, any, error) {
	var ask struct {
		Message, Tree     string
		Parents           []string
		Author, Committer any
	}
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		return 0, nil, err
	}
	if ask.Author != nil || ask.Committer != nil {
		return 0, nil, problem{http.StatusUnprocessableEntity, "a commit with an author of its own is not verified"}
	}
	raw := fmt.Sprintf("tree %s\n", ask.Tree)
	for _, p := range ask.Parents {
		raw += fmt.Sprintf("parent %s\n", p)
	}
	raw += fmt.Sprintf("author muster[bot] <4711+muster[bot]@users.noreply.github.com> %[1]d +0000\ncommitter GitHub <noreply@github.com> %[1]d +0000\n\n%[2]s", s.now().Unix(), ask.Message)
	sha, err := s.repository.GitInput([]byte(raw), "hash-object", "-t", "commit", "-w", "--stdin")
	if err != nil {
		return 0, nil, err
	}
	body, err := s.commit(strings.TrimSpace(sha))
	if err != nil {
		return 0, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	body["verification"] = s.set.verification()
	return http.StatusCreated, body, nil
}

func (s *Server) createBlob(r *http.Request) (int, any, error) {
	var ask struct{ Content, Encoding string }
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		return 0, nil, err
	}
	content := []byte(ask.Content)
	if ask.Encoding == "base64" {
		var err error
		if content, err = base64.StdEncoding.DecodeString(ask.Content); err != nil {
			return 0, nil, err
		}
	}
	sha, err := s.repository.GitInput(content, "hash-object", "-w", "--stdin")
	return http.StatusCreated, map[string]string{"sha": strings.TrimSpace(sha)}, err
}

func (s *Server) createTree(r *http.Request) (int, any, error) {
	var ask struct {
		BaseTree string `json:"base_tree"`
		Tree     []treeEntry
	}
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		return 0, nil, err
	}
	var lines strings.Builder
	for _, e := range ask.Tree {
		line, err := s.indexLine(ask.BaseTree, e)
		if err != nil {
			return 0, nil, err
		}
		lines.WriteString(line)
	}
	index, err := os.CreateTemp(s.dir, "index")
	if err != nil {
		return 0, nil, err
	}
	_ = index.Close()
	defer os.Remove(index.Name())
	sha := ""
	for _, args := range [][]string{{"read-tree", ask.BaseTree}, {"update-index", "--index-info"}, {"write-tree"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = s.repository.Dir, append(cmd.Environ(), "GIT_INDEX_FILE="+index.Name())
		cmd.Stdin = strings.NewReader(lines.String())
		out, err := cmd.CombinedOutput()
		if err != nil {
			return 0, nil, problem{http.StatusUnprocessableEntity, "GitRPC::BadObjectState: " + string(out)}
		}
		sha = strings.TrimSpace(string(out))
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

// indexLine is an entry as git update-index --index-info reads it.
func (s *Server) indexLine(base string, e treeEntry) (string, error) {
	switch {
	case e.Content != nil:
		out, err := s.repository.GitInput([]byte(*e.Content), "hash-object", "-w", "--stdin")
		return fmt.Sprintf("%s %s\t%s\n", e.Mode, strings.TrimSpace(out), e.Path), err
	case e.SHA != nil:
		return fmt.Sprintf("%s %s\t%s\n", e.Mode, *e.SHA, e.Path), nil
	}
	if _, err := s.git("rev-parse", "--verify", "--quiet", base+":"+e.Path); err != nil {
		return "", problem{http.StatusUnprocessableEntity, "GitRPC::BadObjectState"}
	}
	return fmt.Sprintf("0 %s\t%s\n", strings.Repeat("0", 40), e.Path), nil
}

func (s *Server) getRef(r *http.Request) (int, any, error) {
	sha, err := s.git("rev-parse", "--verify", "--quiet", "refs/heads/"+r.PathValue("branch"))
	if err != nil {
		return 0, nil, problem{http.StatusNotFound, "Not Found"}
	}
	return http.StatusOK, ref(r.PathValue("branch"), sha), nil
}

func ref(branch, sha string) map[string]any {
	return map[string]any{"ref": "refs/heads/" + branch, "object": map[string]string{"type": "commit", "sha": sha}}
}

func (s *Server) compare(r *http.Request) (int, any, error) {
	base, head, _ := strings.Cut(r.PathValue("base"), "...")
	status := "diverged"
	if _, err := s.git("merge-base", "--is-ancestor", base, head); err == nil {
		status = "ahead"
	}
	return http.StatusOK, map[string]string{"status": status}, nil
}
