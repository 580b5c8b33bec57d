package remote

import (
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
)

// Stats are the numbers since a [Counter] was made.
type Stats struct {
	// Requests were sent: over http each one, over anything else each session.
	// Failures of them had no answer, or one with a status from 400 on.
	Requests, Failures int64
	// Sent and Received are bytes of content: over http those of the bodies, as
	// they are before compression.
	Sent, Received int64
	// Limit is how many requests are allowed in a window of the server's, and
	// Remaining how many of them are left; Limit is zero where it does not say.
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

// Reader counts what is read of an answer.
func (c *Counter) Reader(r io.Reader) io.Reader { return reader{r, &c.received} }

// Writer counts what is written of a request.
func (c *Counter) Writer(w io.WriteCloser) io.WriteCloser { return writer{w, &c.sent} }

// Transport counts the requests that go through it.
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
		counted := *request // a RoundTripper does not change what it is given
		counted.Body = body{reader{request.Body, &t.count.sent}, request.Body}
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
	response.Body = body{reader{response.Body, &t.count.received}, response.Body}
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

type reader struct {
	io.Reader
	count *atomic.Int64
}

// Read implements [io.Reader].
func (r reader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.count.Add(int64(n))
	return n, err
}

type writer struct {
	io.WriteCloser
	count *atomic.Int64
}

// Write implements [io.Writer].
func (w writer) Write(p []byte) (int, error) {
	n, err := w.WriteCloser.Write(p)
	w.count.Add(int64(n))
	return n, err
}

type body struct {
	reader
	io.Closer
}
