package buildkite

import (
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// biggestAnswer is the maximum size of a page: a build has at most 4,000 jobs of about
	// 1,300 bytes, and a page has a hundred builds.
	biggestAnswer = 640 << 20
	// biggestMessage is the maximum size of an error message.
	biggestMessage = 1 << 20
)

// notice is what the header of a response contains.
type notice struct {
	failed, refused bool
	date            time.Time // by the server's clock; zero if the header is absent
	org, user       Limit
}

// transport is the library's transport. It records the limits in each response, and returns an
// error for 429: otherwise the library would retry for up to 15 minutes, without regard to the
// reset and without a way to stop it (go-buildkite v3.13.0 buildkite.Client.Do).
type transport struct {
	next     http.RoundTripper
	note     func(notice)
	received func(bytes int64)
	biggest  int64 // bytes of one answer
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(r)
	if err != nil {
		t.note(notice{failed: true})
		return nil, connectionError{err}
	}
	n := notice{
		failed:  response.StatusCode >= http.StatusBadRequest,
		refused: response.StatusCode == http.StatusTooManyRequests,
		org:     limitOf(response.Header, "RateLimit-"),
		user:    limitOf(response.Header, "RateLimit-User-"),
	}
	// A server with a clock sends it with every answer: RFC 9110, 6.6.1.
	n.date, _ = http.ParseTime(response.Header.Get("Date"))
	t.note(n)
	if n.refused {
		defer func() { _ = response.Body.Close() }()
		return nil, rateLimited(response)
	}
	most := t.biggest
	if n.failed {
		most = biggestMessage
	}
	response.Body = &bounded{ReadCloser: response.Body, max: most, left: most, refuse: !n.failed, received: t.received}
	return response, nil
}

// bounded is a response body with a size limit. It counts uncompressed bytes, so
// that the limit also applies to a small response that decompresses into a large one.
type bounded struct {
	io.ReadCloser
	max    int64
	left   int64
	refuse bool // more than max is an error; otherwise the rest is ignored
	// received is called with the number of bytes read when the body is closed.
	received func(bytes int64)
}

// Close implements [io.Closer].
func (b *bounded) Close() error {
	if b.received != nil {
		b.received(b.max - b.left)
		b.received = nil
	}
	return b.ReadCloser.Close()
}

// Read implements [io.Reader]. It reads at most one byte more than the limit.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 && !b.refuse {
		return 0, io.EOF
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left+1)])
	b.left -= int64(n)
	if b.left < 0 && b.refuse {
		return 0, &syntaxError{text: fmt.Sprintf("the answer is larger than %d MiB", b.max>>20)}
	}
	if err != nil && err != io.EOF { //nolint:errorlint // a reader's end is io.EOF itself
		err = connectionError{err}
	}
	return n, err
}

// newHTTPClient returns a client that follows no redirect, so that it sends the token to the
// configured address only.
func newHTTPClient(next http.RoundTripper) *http.Client {
	stop := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &http.Client{Transport: next, CheckRedirect: stop}
}

// ownTransport returns a copy of the default transport, with idle connections of its own.
func ownTransport() http.RoundTripper {
	if t, ok := http.DefaultTransport.(*http.Transport); ok {
		return t.Clone()
	}
	return http.DefaultTransport
}
