package main

import "io"

// progress tells somebody who waits how far something has come. On a terminal it
// is one line that is written anew; elsewhere a line now and then. What is logged
// meanwhile goes through it, so that the two do not mix. It is not safe for
// concurrent use.
type progress struct {
	// screen is the terminal; nil where nobody watches.
	screen io.Writer
	// lines takes what is to stay.
	lines io.Writer
	shown string
}

// What a terminal is told: to begin the line anew and empty it, and to cut what is
// too long instead of going on in the next line.
const (
	emptyLine = "\r\x1b[K"
	cutLine   = "\x1b[?7l"
	wrapLine  = "\x1b[?7h"
)

// step says how far it is. Where nobody watches it is printed only when it is a
// milestone.
func (p *progress) step(text string, milestone bool) {
	switch {
	case p.screen != nil:
		p.shown = text
		p.draw()
	case milestone:
		_, _ = io.WriteString(p.lines, text+"\n")
	}
}

// draw writes in one piece: whoever ends the program in between leaves no half of
// what the terminal is told.
func (p *progress) draw() {
	_, _ = io.WriteString(p.screen, emptyLine+cutLine+p.shown+wrapLine)
}

// end empties the line.
func (p *progress) end() {
	if p.shown != "" {
		_, _ = io.WriteString(p.screen, emptyLine)
		p.shown = ""
	}
}

// Write implements [io.Writer] for whole lines that are to stay.
func (p *progress) Write(text []byte) (int, error) {
	if p.shown == "" {
		return p.lines.Write(text)
	}
	_, _ = io.WriteString(p.screen, emptyLine)
	n, err := p.lines.Write(text)
	p.draw()
	return n, err
}
