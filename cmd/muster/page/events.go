package page

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	// maxListeners is the maximum number of concurrent listeners.
	maxListeners = 64
	// heartbeat is how often something is sent while nothing happens, so that who
	// is in between does not close the connection.
	heartbeat = 15 * time.Second
	// writeWithin is how long a listener may take to accept a few bytes.
	writeWithin = 10 * time.Second
)

// events notifies listeners of changes. A slow listener misses some notifications; the next one
// includes their changes.
type events struct {
	mu        sync.Mutex
	listeners map[chan struct{}]bool
	ended     chan struct{}
	end       sync.Once
}

func newEvents() *events {
	return &events{listeners: map[chan struct{}]bool{}, ended: make(chan struct{})}
}

// wakeListeners wakes all listeners.
func (e *events) wakeListeners() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for c := range e.listeners {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// close ends all streams.
func (e *events) close() { e.end.Do(func() { close(e.ended) }) }

// listen adds a listener; false: there are enough.
func (e *events) listen() (news chan struct{}, leave func(), ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.listeners) >= maxListeners {
		return nil, nil, false
	}
	news = make(chan struct{}, 1)
	e.listeners[news] = true
	return news, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.listeners, news)
	}, true
}

// ServeHTTP streams an event "tick" for each tick, as
// https://html.spec.whatwg.org/multipage/server-sent-events.html has it.
func (e *events) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no")
	if r.Method == http.MethodHead {
		return
	}
	news, leave, ok := e.listen()
	if !ok {
		w.Header().Set("Retry-After", "60")
		http.Error(w, fmt.Sprintf("%d pages are open already", maxListeners), http.StatusServiceUnavailable)
		return
	}
	defer leave()
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Time{}) // the server's is that of one request
	send := func(text string) bool {
		_ = connection.SetWriteDeadline(time.Now().Add(writeWithin)) //nolint:forbidigo // a connection knows no other clock
		_, err := w.Write([]byte(text))
		return err == nil && connection.Flush() == nil
	}
	if !send("retry: 5000\n\n") {
		return
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		text := ":\n\n"
		select {
		case <-r.Context().Done():
			return
		case <-e.ended:
			return
		case <-news:
			text = "event: tick\ndata: {}\n\n"
		case <-beat.C:
		}
		if !send(text) {
			return
		}
	}
}
