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
	// heartbeat is the interval of comments, which keep proxies from closing the connection.
	heartbeat = 15 * time.Second
	// writeWithin is the time limit of each write to a listener.
	writeWithin = 10 * time.Second
)

// events notifies listeners of changes. A slow listener misses some notifications; the next one
// includes their changes.
type events struct {
	mu        sync.Mutex
	listeners int
	changed   chan struct{} // closed at the next change
	ended     chan struct{}
	end       sync.Once
}

func newEvents() *events {
	return &events{changed: make(chan struct{}), ended: make(chan struct{})}
}

// notify notifies all listeners.
func (e *events) notify() {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.changed)
	e.changed = make(chan struct{})
}

// next returns a channel that is closed at the next change.
func (e *events) next() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.changed
}

// add adds n to the number of listeners; false if it would exceed the maximum.
func (e *events) add(n int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.listeners+n > maxListeners {
		return false
	}
	e.listeners += n
	return true
}

// close ends all streams.
func (e *events) close() { e.end.Do(func() { close(e.ended) }) }

// ServeHTTP streams an event "tick" for each tick, as server-sent events
// (https://html.spec.whatwg.org/multipage/server-sent-events.html).
func (e *events) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no")
	if r.Method == http.MethodHead {
		return
	}
	if !e.add(1) {
		w.Header().Set("Retry-After", "60")
		http.Error(w, fmt.Sprintf("%d pages are open already", maxListeners), http.StatusServiceUnavailable)
		return
	}
	defer e.add(-1)
	changed := e.next()
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Time{}) // the server's deadline is that of one request
	send := func(text string) bool {
		_ = connection.SetWriteDeadline(time.Now().Add(writeWithin)) //nolint:forbidigo // connections use the machine's clock
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
		case <-changed:
			changed = e.next()
			text = "event: tick\ndata: {}\n\n"
		case <-beat.C:
		}
		if !send(text) {
			return
		}
	}
}
