// Package output prints what commands show: tables, JSON, YAML and CSV documents, charts, and
// on a terminal colours and a progress line. The caller selects them.
package output

import (
	"io"
)

// Output is the destination of a command's output. The zero value of Colour is without colours.
type Output struct {
	// Text escapes untrusted text.
	Text io.Writer
	// Raw writes control sequences. It must not receive untrusted text.
	Raw io.Writer
	// Colour reports whether the reader wants colours.
	Colour bool
}

// Style is the style of a cell in output with colours. The zero value is plain.
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

// Clear clears the screen, and keeps what has scrolled out of it.
func (out Output) Clear() error {
	_, err := io.WriteString(out.Raw, "\x1b[H\x1b[2J")
	return err
}
