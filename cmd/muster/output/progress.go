package output

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Progress is a line at the bottom of a terminal that says what is waited for and
// how long already: from a second on, and never where nothing takes as long. It is
// a writer too: what else goes to that terminal goes through it, and does not mix
// with the line. A nil Progress shows nothing.
type Progress struct {
	mu    sync.Mutex
	to    io.Writer
	what  string // empty: nothing is waited for
	shown bool   // the line is on the terminal
	since time.Time
	now   func() time.Time
	timer *time.Timer
}

// patience is the time from which a line is shown, and from one change of it to
// the next.
const patience = time.Second

// NewProgress returns a progress on a terminal. now tells the time that passes.
func NewProgress(terminal io.Writer, now func() time.Time) *Progress {
	return &Progress{to: terminal, now: now}
}

// Doing sets what the program waits for from now on, as in "reading Buildkite". The text must be
// the caller's own, without control characters. The time counts from the first of several calls.
func (p *Progress) Doing(what string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what = what
	if p.timer == nil {
		p.since = p.now()
		p.timer = time.AfterFunc(patience, p.tick)
	} else if p.shown {
		p.draw()
	}
}

// Done says that nothing is waited for any more, and removes the line.
func (p *Progress) Done() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
	p.what = ""
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}

// Write implements [io.Writer]. The line comes back with its next change.
func (p *Progress) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
	return p.to.Write(text)
}

func (p *Progress) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.what == "" || p.timer == nil { // it has ended meanwhile
		return
	}
	p.draw()
	p.timer.Reset(patience)
}

// draw writes the line over itself. One that cannot be written is not missed.
func (p *Progress) draw() {
	p.shown = true
	_, _ = fmt.Fprintf(p.to, "\r\x1b[K%s ... %ds", p.what, int(p.now().Sub(p.since).Seconds()))
}

func (p *Progress) erase() {
	if p.shown {
		_, _ = io.WriteString(p.to, "\r\x1b[K")
		p.shown = false
	}
}
