// Package output prints what commands show: tables, JSON, YAML and CSV documents, charts, and
// on a terminal colours and a progress line. Its caller says whether there is a terminal.
package output

import (
	"io"
)

// Output is where text goes. The zero value of Colour is without colours, which is
// right for everything but a terminal.
type Output struct {
	// Text takes other people's words, and makes them harmless.
	Text io.Writer
	// Raw takes control sequences, and nothing of other people's.
	Raw io.Writer
	// Colour reports whether the reader wants colours.
	Colour bool
}

// Style is how a cell is shown where there are colours. The zero value is plain.
type Style string

// The styles, as numbers of ECMA-48's "select graphic rendition".
const (
	Plain   Style = ""
	Bold    Style = "1"
	Faint   Style = "2"
	Good    Style = "32"
	Warning Style = "33"
	Bad     Style = "31"
)

// Clear empties the screen, so that what follows is drawn from its top.
func (out Output) Clear() error {
	_, err := io.WriteString(out.Raw, "\x1b[H\x1b[2J\x1b[3J")
	return err
}
