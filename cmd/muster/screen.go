package main

import (
	"io"

	"muster/cmd/muster/terminal"
)

// screen says what reads muster's output. The zero value is no terminal.
type screen struct {
	// terminal: standard output is one, and progress: standard error is one.
	terminal, progress bool
}

// output is where a command prints what may have colours: those that NO_COLOR
// (no-color.org) and the terminal allow.
func (p program) output() terminal.Output {
	var raw io.Writer = p.stdout
	if clean, ok := p.stdout.(*printable); ok {
		raw = clean.to
	}
	return terminal.Output{
		Text: p.stdout, Raw: raw,
		Colour: p.screen.terminal && p.variable("NO_COLOR") == "" && p.variable("TERM") != "dumb",
	}
}
