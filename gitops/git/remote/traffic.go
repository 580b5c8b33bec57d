package remote

import (
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
)

// Stats are the numbers since a [Counter] was made.
type Stats struct {
	// Requests counts HTTP requests, or sessions of other protocols. Failures counts those
	// without a response, and those with a status from 400 on.
	Requests, Failures int64
	// Sent and Received are bytes of content: over HTTP those of the bodies before
	// compression.
	Sent, Received int64
	// Limit is the number of requests that the server allows in a window, and Remaining how
	// many of them are left. Limit is zero if the server reports none.
	Limit, Remaining int64
}

// Counter counts the traffic with one server. It may be used from several
// goroutines. The zero value is ready.
type Counter struct {
	requests, failures, sent, received atomic.Int64
	limit, remaining                   atomic.Int64
}

// Stats returns the numbers.
func (c *Counter) Stats() Stats {
	return Stats{
		Requests: c.requests.Load(), Failures: c.failures.Load(), Sent: c.sent.Load(), Received: c.received.Load(),
		Limit: c.limit.Load(), Remaining: c.remaining.Load(),
	}
}

// Session counts a request that does not use http, and its result.
func (c *Counter) Session(err error) {
	c.requests.Add(1)
	if err != nil {
		c.failures.Add(1)
	}
}

// Reader returns a reader that counts what is received.
func (c *Counter) Reader(r io.Reader) io.Reader {
	return io.TeeReader(r, byteCounter{&c.received})
}

// Writer returns a writer that counts what is sent.
func (c *Counter) Writer(w io.WriteCloser) io.WriteCloser {
	return struct {
		io.Writer
		io.Closer
	}{io.MultiWriter(w, byteCounter{&c.sent}), w}
}

// counting returns a body that counts what is read from it.
func counting(b io.ReadCloser, n *atomic.Int64) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{io.TeeReader(b, byteCounter{n}), b}
}

// byteCounter counts the bytes that are written to it.
type byteCounter struct{ n *atomic.Int64 }

// Write implements [io.Writer].
func (c byteCounter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}

// Transport returns a transport that counts requests.
func (c *Counter) Transport(next http.RoundTripper) http.RoundTripper {
	return countingTransport{next, c}
}

type countingTransport struct {
	next  http.RoundTripper
	count *Counter
}

// RoundTrip implements [http.RoundTripper].
func (t countingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body != nil && request.Body != http.NoBody {
		counted := *request // a RoundTripper must not modify the request
		counted.Body = counting(request.Body, &t.count.sent)
		request = &counted
	}
	t.count.requests.Add(1)
	response, err := t.next.RoundTrip(request)
	if err != nil {
		t.count.failures.Add(1)
		return nil, err
	}
	if response.StatusCode >= http.StatusBadRequest {
		t.count.failures.Add(1)
	}
	t.count.limits(response.Header)
	response.Body = counting(response.Body, &t.count.received)
	return response, nil
}

// limits stores the rate limit that a response contains, if any.
func (c *Counter) limits(h http.Header) {
	for _, q := range LimitHeaders.quirks() {
		limit, err := strconv.ParseInt(h.Get(q.Names[0]), 10, 64)
		if err != nil {
			continue
		}
		remaining, err := strconv.ParseInt(h.Get(q.Names[1]), 10, 64)
		if err != nil {
			continue
		}
		c.limit.Store(limit)
		c.remaining.Store(remaining)
		return
	}
}
