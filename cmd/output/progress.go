package output

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Progress is a line at the bottom of a terminal that shows what the program waits for, and for
// how long. It appears after a second. All other output to the terminal must be written through
// it. A nil Progress shows nothing.
type Progress struct {
	mu    sync.Mutex
	to    io.Writer
	what  string // empty: nothing is waited for
	shown bool   // the line is on the terminal
	since time.Time
	now   func() time.Time
	timer *time.Timer
}

// patience is the delay before the line appears, and the interval of its updates.
const patience = time.Second

// NewProgress returns a progress line on a terminal. now returns the current time.
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

// Done ends the wait, and removes the line.
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

// Write implements [io.Writer]. The line reappears with its next update.
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

// draw overwrites the line. Errors are ignored.
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
