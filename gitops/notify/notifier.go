package notify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// Config is the configuration of a [Notifier].
type Config struct {
	// Repository is the fleet repository's address without anything secret, and Branch
	// the branch that is pushed to.
	Repository, Branch string
	Receivers          []Receiver
	// FilesLater permits receivers whose files do not exist yet. [Notifier.Start] logs them, and the
	// first push after their files exist notifies them.
	FilesLater bool
	// Log is optional.
	Log *slog.Logger
	// Now is the clock by which the duration of notifications is measured.
	Now func() time.Time
}

// Limits of the attempts to notify a receiver of one push. A syncer polls soon anyway.
const (
	tries    = 3
	maxTry   = 5 * time.Second
	maxRound = 10 * time.Second // all tries and the pauses between them
	// gracePeriod is how long notifications continue after the context has ended, for pushes
	// just before. Kubernetes waits 30 seconds before it kills.
	gracePeriod = 3 * time.Second
)

// patience limits the time of one try, and of all tries with the pauses between them.
type patience struct{ try, all time.Duration }

// Notifier notifies receivers of pushes. Each receiver has a goroutine, so that none waits for
// another. It is safe for concurrent use.
type Notifier struct {
	senders []*sender
	running sync.WaitGroup
	mu      sync.Mutex // guards closed
	closed  bool
}

// New returns a notifier, which [Notifier.Start] starts. It returns an error if a file of a receiver
// is invalid, or missing without FilesLater.
func New(cfg Config) (*Notifier, error) {
	n := &Notifier{}
	log := cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	known := map[string]bool{}
	for _, r := range cfg.Receivers {
		if known[r.Name] {
			return nil, fmt.Errorf("two receivers are named %s: give each a name=", r.Name)
		}
		known[r.Name] = true
		post := newPost(r, about{cfg.Repository, cfg.Branch})
		_, _, err := post.event(Push{Unlisted: true})
		if err != nil && !(cfg.FilesLater && errors.Is(err, fs.ErrNotExist)) {
			return nil, fmt.Errorf("the receiver %s: %w", r.Name, err)
		}
		n.senders = append(n.senders, &sender{post: post, log: log, now: cfg.Now, patience: patience{maxTry, maxRound}, trigger: make(chan struct{}, 1), missing: err})
	}
	return n, nil
}

// Start starts sending notifications. They end three seconds after the context; [Notifier.Close]
// ends them as soon as all are sent.
func (n *Notifier) Start(ctx context.Context) {
	sending, end := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(gracePeriod, end) })
	for _, t := range n.senders {
		if t.missing != nil {
			t.failed(t.missing)
		}
		n.running.Go(func() { t.run(sending) })
	}
}

// Landed notifies every receiver of a push. It does not wait.
func (n *Notifier) Landed(p Push) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	for _, t := range n.senders {
		t.landed(p)
	}
}

// Close waits until all notifications of landed pushes have been sent or have failed, which takes
// about ten seconds at most for each of the last two. Nothing is sent afterwards.
func (n *Notifier) Close() {
	n.mu.Lock()
	if !n.closed {
		n.closed = true
		for _, t := range n.senders {
			close(t.trigger)
		}
	}
	n.mu.Unlock()
	n.running.Wait()
}

// Stats are the counts of one receiver since the start. Every push that has landed and is not in
// progress is counted as Sent, Failed or Merged.
type Stats struct {
	// Name is the receiver's.
	Name string
	// Sent is the number of pushes that the receiver was notified about, Failed of those whose
	// notification failed, and Merged of those that a later notification included.
	Sent, Failed, Merged int64
	// Last is the duration of the last successful notification, from the push to the answer; zero
	// before the first.
	Last time.Duration
}

// Stats returns the counts of each receiver, in the order of the receivers.
func (n *Notifier) Stats() []Stats {
	var all []Stats
	for _, t := range n.senders {
		t.mu.Lock()
		stats := t.stats
		t.mu.Unlock()
		stats.Name = t.post.Name
		all = append(all, stats)
	}
	return all
}

// sender notifies one receiver.
type sender struct {
	post    *post
	log     *slog.Logger
	now     func() time.Time
	trigger chan struct{} // has room for one: there is something new
	missing error         // a file that did not exist at the start
	patience

	mu    sync.Mutex // guards what follows
	next  *Push      // landed, and not yet part of due
	count int64      // pushes that are part of next, and when the last of them landed
	at    time.Time
	stats Stats

	// The fields below belong to the goroutine alone. due is the push to send. It remains after a
	// failure and is sent with the next push, so that the receiver misses no file.
	due     *Push
	open    int64 // pushes in due that are not counted as failed
	landing time.Time
	failing bool
}

func (t *sender) landed(p Push) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next != nil {
		p = t.next.then(p)
	}
	t.next, t.at = &p, t.now()
	t.count++
	select {
	case t.trigger <- struct{}{}:
	default: // it is triggered already
	}
}

// run sends notifications until the context ends, or until the notifier is closed and all are sent.
func (t *sender) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case _, more := <-t.trigger:
			if !more {
				return
			}
			t.send(ctx)
		}
	}
}

// take adds the pushes that have landed since to those to send, and reports whether it added any.
func (t *sender) take() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next == nil {
		return false
	}
	all := *t.next
	if t.due != nil {
		all = t.due.then(all)
	}
	t.due, t.landing = &all, t.at
	t.open += t.count
	t.next, t.count = nil, 0
	return true
}

// send sends a notification of what has landed, and of what lands meanwhile.
func (t *sender) send(ctx context.Context) {
	if !t.take() {
		return // it was sent with the push before it
	}
	round, cancel := context.WithTimeout(ctx, t.patience.all)
	defer cancel()
	var err error
	for try := range tries {
		if try > 0 && pause(round, try) != nil {
			break
		}
		t.take()
		once, cancel := context.WithTimeout(round, t.patience.try)
		err = t.post.send(once, *t.due)
		cancel()
		if err == nil {
			t.sent()
			return
		}
		if !again(err) {
			break
		}
	}
	if ctx.Err() == nil {
		t.failed(err)
	}
}

// pause waits before a try: a random time of at most half a second, then of two.
func pause(ctx context.Context, try int) error {
	longest := 500 * time.Millisecond << (2 * (try - 1))
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(longest/2 + rand.N(longest/2)):
		return nil
	}
}

func (t *sender) sent() {
	t.mu.Lock()
	t.stats.Sent++
	t.stats.Merged += t.open - 1
	t.stats.Last = max(0, t.now().Sub(t.landing))
	t.mu.Unlock()
	t.due, t.open = nil, 0
	if t.failing {
		t.log.Info("resolved: "+failingText, "receiver", t.post.Name)
	}
	t.failing = false
}

// failingText is the log message when a receiver begins to fail.
const failingText = "a syncer cannot be notified of pushes, and finds them at its next poll"

func (t *sender) failed(err error) {
	t.mu.Lock()
	t.stats.Failed += t.open
	t.mu.Unlock()
	t.open = 0
	if !t.failing {
		t.log.Warn(failingText, "receiver", t.post.Name, "reason", err)
	}
	t.failing = true
}
