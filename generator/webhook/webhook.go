// Package webhook receives events from Buildkite and git hosts, and triggers the loop of
// ticks. It decides nothing: each tick reads the current state. So an attacker with the
// secret can at most make muster poll earlier, as often as [generator.Wake] allows. A lost
// event delays the next poll to the end of the interval.
//
// The receiver uses the content of a request only if its sender has proved that it has the
// secret, and only to ignore events that cannot matter: another organisation or branch, a
// job that needs no agent, muster's own push.
package webhook

import (
	"cmp"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"muster/generator"
)

// The bounds of a request.
const (
	// MaxBody is how many bytes a body may have.
	MaxBody = 1 << 20
	// MaxAge is how far the signed time of a request may be from the clock's, either way:
	// Buildkite's own example (buildkite/docs
	// pages/apis/webhooks/_defending_against_replay_attacks.md).
	MaxAge = 5 * time.Minute
	// maxConcurrent is how many requests are handled at the same time.
	maxConcurrent = 8
)

// The paths that are served.
const (
	BuildkitePath = "/webhooks/buildkite"
	GitPath       = "/webhooks/git"
)

// Source is the sender of an event.
type Source string

// The sources.
const (
	Buildkite Source = "buildkite"
	GitHub    Source = "github"
	GitLab    Source = "gitlab"
	Bitbucket Source = "bitbucket"
	// Gitea also represents Forgejo and Gogs.
	Gitea Source = "gitea"
	// Generic is a sender that signs as Flux's receivers of the type generic-hmac require.
	Generic Source = "generic"
)

// Sources returns all sources, those of git last.
func Sources() []Source { return []Source{Buildkite, GitHub, GitLab, Bitbucket, Gitea, Generic} }

// Result is the result of a request.
type Result string

// The results.
const (
	// Triggered: it triggered a tick.
	Triggered Result = "triggered"
	// Ignored: it cannot affect the next decision, such as a ping.
	Ignored Result = "ignored"
	// Forged: its signature or token does not match the secret.
	Forged Result = "forged"
	// Outdated: its signed time is too far from the clock's.
	Outdated Result = "outdated"
	// Replayed: it was received before.
	Replayed Result = "replayed"
	// Malformed: it is signed and is neither JSON nor a form that contains JSON.
	Malformed Result = "malformed"
	// Oversized: its body is larger than [MaxBody].
	Oversized Result = "oversized"
	// Busy: too many requests are being handled.
	Busy Result = "busy"
	// Failed: the secret or the body could not be read.
	Failed Result = "failed"
)

// Results returns all results.
func Results() []Result {
	return []Result{Triggered, Ignored, Forged, Outdated, Replayed, Malformed, Oversized, Busy, Failed}
}

// status returns the status code of the response.
func (r Result) status() int {
	switch r {
	case Triggered, Ignored:
		return http.StatusOK
	case Forged, Outdated:
		return http.StatusUnauthorized
	case Replayed:
		return http.StatusConflict
	case Malformed:
		return http.StatusBadRequest
	case Oversized:
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusServiceUnavailable
}

// Config configures a [Receiver]. Now is required.
type Config struct {
	// BuildkiteSecret and GitSecret return the secrets. They are called for each request.
	// If one is nil, its path is not served.
	BuildkiteSecret, GitSecret func() ([]byte, error)
	// Organisation is the slug whose events matter, and Branch the branch whose pushes do.
	Organisation, Branch string
	// Now returns the time.
	Now func() time.Time
	// Log records secrets that cannot be read, and each request at the level debug.
	Log *slog.Logger
	// Count is called for each request, from several goroutines; optional.
	Count func(Source, Result)
}

// Receiver serves the webhooks. It is safe for concurrent use, and a
// [generator.Watcher], by which it knows muster's own pushes.
type Receiver struct {
	cfg   Config
	calls chan generator.Cause
	slots chan struct{}

	mu       sync.Mutex
	seen     seen
	unread   map[string]bool      // paths whose secret cannot be read
	refusals map[string]*refusals // by path
	head     string               // the branch's head after the last tick
	missing  bool                 // limits withheld agents in the last tick that decided
}

// New returns a receiver without events.
func New(cfg Config) *Receiver {
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Receiver{cfg: cfg, calls: make(chan generator.Cause, 1), slots: make(chan struct{}, maxConcurrent), unread: map[string]bool{}, refusals: map[string]*refusals{}}
}

// Calls returns the channel of triggers, for [generator.Wake].
func (r *Receiver) Calls() <-chan generator.Cause { return r.calls }

// AddTo adds the paths that have a secret.
func (r *Receiver) AddTo(mux *http.ServeMux) {
	if r.cfg.BuildkiteSecret != nil {
		mux.HandleFunc("POST "+BuildkitePath, func(w http.ResponseWriter, q *http.Request) {
			r.serve(w, q, Buildkite, r.cfg.BuildkiteSecret, r.buildkite)
		})
	}
	if r.cfg.GitSecret != nil {
		mux.HandleFunc("POST "+GitPath, func(w http.ResponseWriter, q *http.Request) {
			host := hostOf(q.Header)
			r.serve(w, q, host.source, r.cfg.GitSecret, func(header http.Header, body, secret []byte) Result {
				return r.git(host, header, body, secret)
			})
		})
	}
}

// call triggers a tick, unless a trigger is waiting already.
func (r *Receiver) call(cause generator.Cause) Result {
	select {
	case r.calls <- cause:
	default:
	}
	return Triggered
}

// serve reads a request within its limits and calls handle. Each request that handle gets
// costs at most three digests of its body, whether its sender knows the secret or not.
func (r *Receiver) serve(w http.ResponseWriter, q *http.Request, from Source, secret func() ([]byte, error), handle func(http.Header, []byte, []byte) Result) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	default:
		r.answer(w, q, from, Busy)
		return
	}
	key, err := secret()
	if err == nil && len(key) == 0 {
		err = errors.New("it is empty")
	}
	r.noteSecret(q.URL.Path, err)
	if err != nil {
		r.answer(w, q, from, Failed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, q.Body, MaxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		r.answer(w, q, from, Oversized)
	case err != nil:
		r.answer(w, q, from, Failed)
	default:
		r.answer(w, q, from, handle(q.Header, body, key))
	}
}

// answer counts a request and returns the result to its sender, and no details.
func (r *Receiver) answer(w http.ResponseWriter, q *http.Request, from Source, result Result) {
	r.noteResult(q.URL.Path, from, result)
	if r.cfg.Count != nil {
		r.cfg.Count(from, result)
	}
	r.cfg.Log.Debug("webhook", "source", from, "result", result)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(result.status())
	_, _ = io.WriteString(w, string(result)+"\n")
}

// noteSecret logs when a secret can no longer be read, and when it can again.
func (r *Receiver) noteSecret(path string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	const text = "webhooks are refused: their secret cannot be read"
	switch {
	case err != nil && !r.unread[path]:
		r.cfg.Log.Error(text, "path", path, "err", err)
	case err == nil && r.unread[path]:
		r.cfg.Log.Info("resolved: "+text, "path", path)
	}
	r.unread[path] = err != nil
}
