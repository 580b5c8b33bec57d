// Package githubtest is a fake of the part of GitHub's API that muster uses, over a local bare
// repository: git data, pull requests, checks, and tokens of a GitHub App. It includes GitHub's errors.
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
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"muster/gitops/gitserver"
)

// Server is the API of the repository acme/fleet.
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
	// drop loses the next response, and dropBefore the next request.
	drop, dropBefore bool
	// away reports that every connection is closed.
	away bool
	// after is called after the next commit on a branch, before its response is lost.
	after func()
	// made counts write requests; see Made.
	made map[string]int
	set  settings
	// moving serializes moves of references.
	moving sync.Mutex
	pulls
}

// Owner and Name are the repository's.
const (
	Owner = "acme"
	Name  = "fleet"
)

// Serve serves the API of a repository until Close. It writes the App's key into dir. now is the clock
// for tokens.
func Serve(r gitserver.Repository, dir string, now func() time.Time) (*Server, error) {
	key, err := rsa.GenerateKey(rand.Reader, 1024) // quick rather than secure
	if err != nil {
		return nil, err
	}
	s := &Server{
		AppID: "4711", Installation: 42, KeyFile: filepath.Join(dir, "app.pem"),
		repository: r, dir: dir, key: key, now: now, tokens: map[string]time.Time{}, made: map[string]int{},
		set: settings{contents: "write"},
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	if err := os.WriteFile(s.KeyFile, pem.EncodeToMemory(block), 0o600); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /app/installations/{id}/access_tokens", s.issue)
	for pattern, answer := range map[string]handler{
		"GET /git/commits/{sha}":      s.getCommit,
		"POST /git/commits":           decoded(s.createCommit),
		"POST /git/trees":             decoded(s.createTree),
		"POST /git/blobs":             decoded(s.createBlob),
		"GET /git/ref/heads/{branch}": s.getRef,

		"POST /pulls":                     s.writing(mayWrite, decoded(s.openPull)),
		"GET /pulls":                      s.locked(s.listPulls),
		"GET /pulls/{number}":             s.locked(s.getPull),
		"GET /issues/{number}/comments":   s.locked(s.listComments),
		"POST /issues/{number}/comments":  s.writing(mayWrite, decoded(s.createComment)),
		"PATCH /issues/comments/{number}": s.writing(mayWrite, decoded(s.editComment)),
		"POST /check-runs":                s.writing(mayCheck, decoded(s.createCheck)),
		"PATCH /check-runs/{number}":      s.writing(mayCheck, decoded(s.updateCheck)),
	} {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" /repos/"+Owner+"/"+Name+path, s.renamed(s.authorized(answer)))
		mux.HandleFunc(method+" /repositories/"+repositoryID+path, s.authorized(answer))
	}
	mux.HandleFunc("POST /graphql", s.authorized(decoded(s.graphQL)))
	s.http = httptest.NewServer(mux)
	s.URL = s.http.URL + "/"
	return s, nil
}

// Close stops the server.
func (s *Server) Close() { s.http.Close() }

// Refuse makes the server refuse to move any branch, with this message.
func (s *Server) Refuse(words string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = words
}

// LoseNext makes the server close the connection instead of responding to the next commit on a branch.
// made reports whether the commit is made. op is called before; it may be nil.
func (s *Server) LoseNext(made bool, op func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.after, s.drop, s.dropBefore = op, made, !made
}

// Away makes the server close the connection of every further request, or of none.
func (s *Server) Away(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

func (s *Server) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made[what]++
}

// tooLarge reports whether one request has too many files or bytes for a tree or commit. GitHub
// documents no bound; its users met one from some 200 files or 2.5 MB on
// (codesandbox/codesandbox-client, issue 8614; ir-engine/ir-engine, pull request 647).
func tooLarge(files, bytes int) bool { return files > 200 || bytes > 2_500_000 }

// Made returns the number of write requests so far, rejected ones included, by mutation or last path
// segment, as in "createCommitOnBranch": 2, "trees": 1.
func (s *Server) Made() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.made)
}

// Revoke revokes all tokens.
func (s *Server) Revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
}

// Issued returns the number of issued tokens.
func (s *Server) Issued() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.issued
}

// Valid reports whether a token is valid.
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

// handler returns the status and the body of the response to a request, or a [problem].
type handler func(*http.Request) (status int, body any, err error)

// decoded returns a handler that passes on the body of a request, which is JSON.
func decoded[T any](next func(*http.Request, T) (int, any, error)) handler {
	return func(r *http.Request) (int, any, error) {
		var body T
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			return 0, nil, err
		}
		return next(r, body)
	}
}

// locked returns a handler that uses what s.mu guards.
func (s *Server) locked(next handler) handler {
	return func(r *http.Request) (int, any, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return next(r)
	}
}

func (s *Server) authorized(answer handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		away := s.away
		s.mu.Unlock()
		if away {
			panic(http.ErrAbortHandler)
		}
		if !s.Valid(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")) {
			reply(w, http.StatusUnauthorized, map[string]string{"message": "Bad credentials"})
			return
		}
		if s.limited(w) {
			return
		}
		if r.Method != http.MethodGet && r.URL.Path != "/graphql" {
			s.count(path.Base(r.URL.Path))
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

// issue verifies the App's JSON web token and issues a token for an hour.
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
