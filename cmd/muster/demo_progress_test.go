package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"muster/cmd/muster/output"
)

// vt100 simulates a terminal of one row that scrolls, with the control sequences of progress.
type vt100 struct {
	t    *testing.T
	past []string // the lines that have scrolled by
	row  string
	cut  bool // it cuts what is too long
	// shown is called after each change with the row; optional.
	shown func(row string)
}

func (s *vt100) Write(text []byte) (int, error) {
	for rest := string(text); rest != ""; {
		sequence, found := "", false
		for _, sequence = range []string{emptyLine, cutLine, wrapLine, "\n"} {
			if rest, found = strings.CutPrefix(rest, sequence); found {
				break
			}
		}
		switch {
		case !found:
			if rest[0] < ' ' {
				s.t.Fatalf("the terminal is told %q", rest)
			}
			s.row += rest[:1]
			rest = rest[1:]
		case sequence == emptyLine:
			s.row = ""
		case sequence == "\n":
			s.past, s.row = append(s.past, s.row), ""
		default:
			s.cut = sequence == cutLine
		}
	}
	if s.cut {
		s.t.Error("the terminal is left in a state in which it cuts lines")
	}
	if s.shown != nil {
		s.shown(s.row)
	}
	return len(text), nil
}

// What a terminal is told: to begin the line anew and empty it, and to cut what is
// too long instead of going on in the next line.
const (
	emptyLine = "\r\x1b[K"
	cutLine   = "\x1b[?7l"
	wrapLine  = "\x1b[?7h"
)

// TestSteps asserts that on a terminal logs appear above the line, which is overwritten and removed
// at the end, and that elsewhere milestones are lines.
func TestSteps(t *testing.T) {
	s := &vt100{t: t}
	p := &output.Steps{Screen: s, Lines: s}
	p.Step("one of three", false)
	p.Step("two", true)
	p.Write([]byte("a warning\n"))
	if s.row != "two" || !slices.Equal(s.past, []string{"a warning"}) {
		t.Errorf("the terminal shows %q after %q", s.row, s.past)
	}
	p.End()
	p.Write([]byte("done\n"))
	if s.row != "" || !slices.Equal(s.past, []string{"a warning", "done"}) {
		t.Errorf("at the end the terminal shows %q after %q", s.row, s.past)
	}
	var out bytes.Buffer
	p = &output.Steps{Lines: &out}
	p.Step("one", true)
	p.Step("two", false)
	p.Write([]byte("a warning\n"))
	p.End()
	if got, want := out.String(), "one\na warning\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}
