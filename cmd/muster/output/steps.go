package output

import "io"

// Steps shows the progress of a long operation from its start; [Progress] is for operations that
// are usually short. On a terminal it redraws one line; elsewhere it prints a line for each
// milestone. Log lines must pass through it, so that they do not mix with the progress line. It
// is not safe for concurrent use.
type Steps struct {
	// Screen is the terminal; nil without one.
	Screen io.Writer
	// Lines receives permanent lines.
	Lines io.Writer
	shown string
}

// Control sequences for the terminal: return to the start of the line and clear it; cut long
// lines; wrap long lines.
const (
	emptyLine = "\r\x1b[K"
	cutLine   = "\x1b[?7l"
	wrapLine  = "\x1b[?7h"
)

// Step prints the progress. Without a terminal, it prints only milestones.
func (p *Steps) Step(text string, milestone bool) {
	switch {
	case p.Screen != nil:
		p.shown = text
		p.draw()
	case milestone:
		_, _ = io.WriteString(p.Lines, text+"\n")
	}
}

// draw redraws the line in a single write, so that an interrupted program leaves no incomplete
// escape sequence on the terminal.
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

// Write implements [io.Writer] for whole permanent lines.
func (p *Steps) Write(text []byte) (int, error) {
	if p.shown == "" {
		return p.Lines.Write(text)
	}
	_, _ = io.WriteString(p.Screen, emptyLine)
	n, err := p.Lines.Write(text)
	p.draw()
	return n, err
}
