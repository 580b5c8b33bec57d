package output

import "io"

// Steps tells somebody who waits how far something long has come, from its first
// moment; [Progress] is for what is usually short. On a terminal it
// is one line that is written anew; elsewhere a line now and then. What is logged
// meanwhile goes through it, so that the two do not mix. It is not safe for
// concurrent use.
type Steps struct {
	// Screen is the terminal; nil where nobody watches.
	Screen io.Writer
	// Lines takes what is to stay.
	Lines io.Writer
	shown string
}

// What a terminal is told: to begin the line anew and empty it, and to cut what is
// too long instead of going on in the next line.
const (
	emptyLine = "\r\x1b[K"
	cutLine   = "\x1b[?7l"
	wrapLine  = "\x1b[?7h"
)

// Step says how far it is. Where nobody watches it is printed only when it is a
// milestone.
func (p *Steps) Step(text string, milestone bool) {
	switch {
	case p.Screen != nil:
		p.shown = text
		p.draw()
	case milestone:
		_, _ = io.WriteString(p.Lines, text+"\n")
	}
}

// draw writes in one piece: whoever ends the program in between leaves no half of
// what the terminal is told.
func (p *Steps) draw() {
	_, _ = io.WriteString(p.Screen, emptyLine+cutLine+p.shown+wrapLine)
}

// End empties the line.
func (p *Steps) End() {
	if p.shown != "" {
		_, _ = io.WriteString(p.Screen, emptyLine)
		p.shown = ""
	}
}

// Write implements [io.Writer] for whole lines that are to stay.
func (p *Steps) Write(text []byte) (int, error) {
	if p.shown == "" {
		return p.Lines.Write(text)
	}
	_, _ = io.WriteString(p.Screen, emptyLine)
	n, err := p.Lines.Write(text)
	p.draw()
	return n, err
}
