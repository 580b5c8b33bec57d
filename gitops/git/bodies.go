package git

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// bodies is a transport that knows which response bodies are still open, and
// closes them with the session. A body is read to its end when it is closed, so
// that its connection can be used again.
type bodies struct {
	next http.RoundTripper
	// censor takes secrets out of what the host says, before that is cut.
	censor func(string) string
	mu     sync.Mutex
	open   []io.ReadCloser
	// offered is the advertisement of this session; nil: there was none.
	offered *offered
}

// RoundTrip passes the request on.
func (b *bodies) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(request)
	if err == nil {
		err = webPage(response, b.censor)
	}
	if err == nil {
		err = refused(response, b.censor)
	}
	if err == nil && response.Body != nil {
		b.note(request, response)
		response.Body = &drained{ReadCloser: response.Body}
		b.mu.Lock()
		b.open = append(b.open, response.Body)
		b.mu.Unlock()
	}
	if err != nil {
		return nil, err
	}
	return response, nil
}

// webPage returns an error where a web page came instead of git's answer: a
// login page, a proxy's, or that of a path that is no repository.
func webPage(response *http.Response, censor func(string) string) error {
	kind, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
	if response.StatusCode != http.StatusOK || !strings.EqualFold(strings.TrimSpace(kind), "text/html") {
		return nil
	}
	called := wordsOf(response.Body, censor)
	if called != "" {
		called = " (" + called + ")"
	}
	return fmt.Errorf("the host answered with a web page%s and not as a git server does: check the address, and whether it asks for a login", called)
}

func (b *bodies) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, body := range b.open {
		_ = body.Close()
	}
	b.open = nil
}

// drained is a body that is read to its end before it is closed, if that is
// near.
type drained struct {
	io.ReadCloser
	once sync.Once
	err  error
}

// Close drains and closes the body, once.
func (d *drained) Close() error {
	d.once.Do(func() {
		const near = 256 << 10
		_, _ = io.CopyN(io.Discard, d.ReadCloser, near)
		d.err = d.ReadCloser.Close()
	})
	return d.err
}
