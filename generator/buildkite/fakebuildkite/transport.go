package fakebuildkite

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"
)

// Transport returns a RoundTripper that calls the server in process, without a socket.
func (s *Server) Transport() http.RoundTripper { return transport{s} }

// Sleep advances the clock, so that a waiting client can use the server as its clock.
func (s *Server) Sleep(ctx context.Context, d time.Duration) error {
	s.Advance(d)
	return ctx.Err()
}

type transport struct{ server *Server }

// RoundTrip implements [http.RoundTripper].
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer func() { _ = r.Body.Close() }()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	in := r.Clone(r.Context())
	in.Host = r.URL.Host
	w := &recorder{header: http.Header{}, status: http.StatusOK}
	t.server.ServeHTTP(w, in)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if w.cut {
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	}
	length, err := strconv.ParseInt(w.header.Get("Content-Length"), 10, 64)
	if err != nil {
		length = int64(len(w.body))
	}
	var body io.Reader = bytes.NewReader(w.body)
	if length > int64(len(w.body)) {
		body = io.MultiReader(body, broken{})
	}
	if w.slow {
		body = slowly{body, r.Context()}
	}
	return &http.Response{
		Status:     strconv.Itoa(w.status) + " " + http.StatusText(w.status),
		StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(body), ContentLength: length, Request: r,
	}, nil
}

// recorder is the ResponseWriter of one request in process.
type recorder struct {
	header http.Header
	status int
	body   []byte
	slow   bool
	cut    bool // there is no answer
}

func (w *recorder) Header() http.Header    { return w.header }
func (w *recorder) WriteHeader(status int) { w.status = status }
func (w *recorder) Write(raw []byte) (int, error) {
	if w.body == nil {
		w.body = raw // the server writes once, and does not keep the data
	} else {
		w.body = append(w.body, raw...)
	}
	return len(raw), nil
}

// broken is the rest of an answer that was cut off.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// slowly reads a byte a second, until the caller has gone.
type slowly struct {
	io.Reader
	ctx context.Context
}

func (s slowly) Read(p []byte) (int, error) {
	select {
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	case <-time.After(time.Second):
		return s.Reader.Read(p[:min(1, len(p))])
	}
}
