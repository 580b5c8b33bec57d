package gitserver

import (
	"context"
	"crypto/subtle"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// Options are the options of a server. The zero value serves everybody over plain HTTP.
type Options struct {
	// Username and Password are required as basic authentication if Password is not empty.
	Username, Password string
	// TLS serves https with a self-signed certificate; see [Server.CertificatePEM].
	TLS bool
	// Remember caches responses to reads while no ref of the repository has changed, so that
	// frequent polls do not start git each time.
	Remember bool
	// Wrap wraps the handler, to simulate faults.
	Wrap func(http.Handler) http.Handler
}

// Server serves the repositories below one directory over smart HTTP.
type Server struct {
	// URL is the server's address without a trailing slash; a repository's is
	// URL + "/" + its directory's name.
	URL string

	http *httptest.Server

	mu       sync.Mutex
	options  Options
	requests []string
}

// Serve serves the bare repositories in dir until Close. It needs
// git-http-backend, which some distributions package apart from git.
func Serve(dir string, o Options) (*Server, error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("serving %s: %w", dir, err)
	}
	// The path, because "git http-backend" would be a further process for each request.
	execPath, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		return nil, fmt.Errorf("serving %s: git --exec-path: %w", dir, err)
	}
	backend, err := exec.LookPath(filepath.Join(strings.TrimSpace(string(execPath)), "git-http-backend"))
	if err != nil {
		return nil, fmt.Errorf("serving %s: %w; install git-http-backend (Alpine: package git-daemon)", dir, err)
	}
	s := &Server{options: o}
	var handler http.Handler = &cgi.Handler{
		Path:   backend,
		Dir:    root,
		Env:    append(isolation(), "GIT_PROJECT_ROOT="+root, "GIT_HTTP_EXPORT_ALL=1"),
		Stderr: io.Discard,
		Logger: log.New(io.Discard, "", 0), // clients may disconnect
	}
	handler = whole(handler)
	if o.Remember {
		handler = remember(root, handler)
	}
	handler = s.record(s.authenticate(handler))
	if o.Wrap != nil {
		handler = o.Wrap(handler)
	}
	if o.TLS {
		s.http = httptest.NewTLSServer(handler)
	} else {
		s.http = httptest.NewServer(handler)
	}
	s.URL = s.http.URL
	return s, nil
}

// Close ends every connection and stops the server.
func (s *Server) Close() {
	s.http.CloseClientConnections()
	s.http.Close()
}

// CloseConnections ends every connection, like a restart.
func (s *Server) CloseConnections() { s.http.CloseClientConnections() }

// SetPassword changes the required password.
func (s *Server) SetPassword(password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.options.Password = password
}

// Requests returns the requests since the last call, in order, as in
// "GET /fleet.git/info/refs?service=git-upload-pack".
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	requests := s.requests
	s.requests = nil
	return requests
}

// CertificatePEM returns the self-signed certificate of a TLS server.
func (s *Server) CertificatePEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
}

func (s *Server) record(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.Method+" "+r.URL.RequestURI())
		s.mu.Unlock()
		next.ServeHTTP(w, r)
	})
}

func (s *Server) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		o := s.options
		s.mu.Unlock()
		name, password, _ := r.BasicAuth()
		if o.Password != "" && (name != o.Username || subtle.ConstantTimeCompare([]byte(password), []byte(o.Password)) != 1) {
			w.Header().Set("WWW-Authenticate", `Basic realm="gitserver"`)
			http.Error(w, "authentication failed", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// whole reads the body before the CGI program starts: CGI does not support chunked bodies, which git
// sends when it pushes more than a megabyte.
func whole(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength < 0 {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				http.Error(w, "reading the body", http.StatusBadRequest)
				return
			}
			r = again(r.WithContext(context.WithoutCancel(r.Context())), body)
		}
		next.ServeHTTP(w, r)
	})
}

// TB is the part of testing.TB that this package needs, so that the demo does not link package testing.
type TB interface {
	Helper()
	Cleanup(func())
	TempDir() string
	Fatal(args ...any)
}

// Fleet is a bare repository and its server.
type Fleet struct {
	Repository
	*Server
}

// URL returns the repository's address.
func (f Fleet) URL() string { return f.Server.URL + "/" + filepath.Base(f.Dir) }

// NewServer makes an empty bare repository, fleet.git, in a directory of the test and serves it until the
// test ends.
func NewServer(t TB, o Options) Fleet {
	t.Helper()
	repository := NewRepository(t)
	server, err := Serve(filepath.Dir(repository.Dir), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return Fleet{Repository: repository, Server: server}
}

// NewRepository makes an empty bare repository, fleet.git, in a directory of the test.
func NewRepository(t TB, more ...string) Repository {
	t.Helper()
	repository, err := Init(filepath.Join(t.TempDir(), "fleet.git"), more...)
	if err != nil {
		t.Fatal(err)
	}
	return repository
}
