package buildkite

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"
)

// retrier repeats requests that failed for a reason that may have passed a moment later: an
// answer with 500, 502, 503 or 504, a connection that was cut, a time-out. All its requests have
// the same effect once or twice. The zero value does not pause between two attempts.
type retrier struct {
	clock Clock // nil: no pauses, and no limit of time

	mu     sync.Mutex
	done   map[string]bool // the requests that have succeeded since the last complete poll
	recent uint64          // a bit for each of the last 64 requests, 1 if it failed
}

const (
	// maxAttempts is how often a request is sent. Attempts are apart by a random time of up to
	// firstPause, which doubles.
	maxAttempts = 5
	firstPause  = 250 * time.Millisecond
	// longestPause is how long a request waits at most if the server asks for a pause; a longer
	// one is up to the next tick.
	longestPause = 5 * time.Second
	// manyFail is how many of the last 64 requests must fail to be worth reporting.
	manyFail = 16
)

// do sends a request until it succeeds, fails for another reason, or has been sent maxAttempts
// times. It repeats a request that the client gave up waiting for once, and begins no attempt later
// than longest after the first. It returns the error of the last attempt, and that of the context if
// it ended. name identifies the request for [retrier.progress].
func (r *retrier) do(ctx context.Context, longest time.Duration, name string, request func() error) error {
	began, waited := r.now(), 0
	for attempt := 1; ; attempt++ {
		err := request()
		if ctx.Err() != nil {
			return err
		}
		failed := passing(err)
		r.note(name, err, failed)
		if errors.Is(err, context.DeadlineExceeded) {
			waited++
		}
		pause := max(rand.N(firstPause<<(attempt-1)), resetOf(err))
		if !failed || attempt == maxAttempts || waited > 1 || pause > longestPause || r.now().Sub(began) > longest {
			return err
		}
		if r.clock == nil {
			continue
		}
		if r.clock.Sleep(ctx, pause) != nil {
			if ctx.Err() != nil {
				err = fmt.Errorf("%w (%w)", err, ctx.Err())
			}
			return err
		}
	}
}

func (r *retrier) now() time.Time {
	if r.clock == nil {
		return time.Time{}
	}
	return r.clock.Now()
}

// note records a request that succeeded or failed. Other errors are answers too, but say nothing
// about whether Buildkite works.
func (r *retrier) note(name string, err error, failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case failed:
		r.recent = r.recent<<1 | 1
	case err == nil:
		if r.recent <<= 1; r.done == nil {
			r.done = map[string]bool{}
		}
		r.done[name] = true
	}
}

// progress returns how many different requests have succeeded since the last complete poll.
func (r *retrier) progress() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.done)
}

// complete records that a poll is complete.
func (r *retrier) complete() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done = nil
}

// failing returns a sentence if many of the last requests failed; otherwise it is empty.
func (r *retrier) failing() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	failed := bits.OnesCount64(r.recent)
	if failed < manyFail {
		return ""
	}
	return fmt.Sprintf("%d of the last 64 requests to Buildkite failed and were repeated, so that polls take longer", failed)
}

// connectionError is an error of the connection, before or within a response.
type connectionError struct{ error }

func (e connectionError) Unwrap() error { return e.error }

// passing reports whether a request failed for a reason that may have passed a moment later.
func passing(err error) bool {
	if errors.Is(err, context.Canceled) {
		return false
	}
	if hasStatus(err, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout) {
		return true
	}
	if syntax, ok := errors.AsType[*syntaxError](err); ok {
		return syntax.cut
	}
	_, connection := errors.AsType[connectionError](err)
	return connection && !lasting(err)
}

// lasting reports whether an error of a connection is one that the next attempt has too: no such
// host, no valid certificate, no TLS.
func lasting(err error) bool {
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	dns, ok := errors.AsType[*net.DNSError](err)
	return certificate || plain || ok && dns.IsNotFound
}

// timedOut reports whether a request took too long: for the client, or for a proxy on the way.
func timedOut(err error) bool {
	e, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return ok && e.Timeout() || hasStatus(err, http.StatusGatewayTimeout)
}

// resetOf returns the pause that the server asks for with an error; zero if it asks for none.
func resetOf(err error) time.Duration {
	if answer, ok := errors.AsType[*statusError](err); ok {
		return answer.reset
	}
	return 0
}
