package gitserver

import (
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// memory caches git's responses to reads, by request. A response is reused while every ref of its
// repository is unchanged: the next read sees every change of a ref, also one that bypasses the server.
type memory struct {
	root string // the directory of the repositories
	next http.Handler

	mu      sync.Mutex
	refs    map[string]string             // the refs of each repository at the time of its responses
	answers map[string]map[string]*answer // the responses of each repository, by request
}

// answer is git's response to a request.
type answer = httptest.ResponseRecorder

// sendRecorded sends a recorded response.
func sendRecorded(w http.ResponseWriter, a *answer) {
	maps.Copy(w.Header(), a.Header())
	w.WriteHeader(a.Code)
	_, _ = w.Write(a.Body.Bytes()) // the client may have left
}

// remember returns a handler that responds to reads from memory if possible.
func remember(root string, next http.Handler) http.Handler {
	return &memory{root: root, next: next, refs: map[string]string{}, answers: map[string]map[string]*answer{}}
}

// ServeHTTP implements [http.Handler].
func (m *memory) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	repository, ok := strings.CutSuffix(r.URL.Path, "/info/refs")
	if !ok {
		repository, ok = strings.CutSuffix(r.URL.Path, "/git-upload-pack")
	}
	if !ok {
		m.next.ServeHTTP(w, r)
		return
	}
	question, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "reading the body", http.StatusBadRequest)
		return
	}
	r = again(r, question)
	key := strings.Join([]string{r.Method, r.URL.RequestURI(), r.Header.Get("Git-Protocol"), r.Header.Get("Content-Encoding"), string(question)}, "\n")
	refs := refsOf(filepath.Join(m.root, filepath.FromSlash(repository)))
	if known := m.known(repository, refs, key); known != nil {
		sendRecorded(w, known)
		return
	}
	a := httptest.NewRecorder()
	m.next.ServeHTTP(a, r)
	if a.Code == http.StatusOK && refs == refsOf(filepath.Join(m.root, filepath.FromSlash(repository))) {
		m.note(repository, refs, key, a)
	}
	sendRecorded(w, a)
}

// known returns a response that is still valid, or nil.
func (m *memory) known(repository, refs, key string) *answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refs[repository] != refs {
		return nil
	}
	return m.answers[repository][key]
}

func (m *memory) note(repository, refs, key string, a *answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.answers[repository] == nil || m.refs[repository] != refs {
		m.refs[repository], m.answers[repository] = refs, map[string]*answer{}
	}
	m.answers[repository][key] = a
}

// refsOf returns the content of all refs of a repository, loose and packed. Unreadable refs are left
// out: git reports them.
func refsOf(dir string) string {
	var all strings.Builder
	add := func(name string) {
		text, _ := os.ReadFile(filepath.Join(dir, name))
		all.WriteString(name + "\n" + string(text) + "\n")
	}
	add("HEAD")
	add("packed-refs")
	_ = fs.WalkDir(os.DirFS(dir), "refs", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			add(filepath.FromSlash(name))
		}
		return nil
	})
	return all.String()
}
