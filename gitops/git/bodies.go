package git

import (
	"io"
	"net/http"
	"sync"
)

// bodies is a transport that knows which response bodies are still open, and
// closes them with the session. A body is read to its end when it is closed, so
// that its connection can be used again.
type bodies struct {
	next http.RoundTripper
	mu   sync.Mutex
	open []io.ReadCloser
}

// RoundTrip passes the request on.
func (b *bodies) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(request)
	if err == nil && response.Body != nil {
		response.Body = &drained{ReadCloser: response.Body}
		b.mu.Lock()
		b.open = append(b.open, response.Body)
		b.mu.Unlock()
	}
	return response, err
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
