package main

import (
	"bytes"
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

// TestProgressOnATerminal asserts that the line is overwritten, that logs appear above it, and
// that it is removed at the end.
func TestProgressOnATerminal(t *testing.T) {
	s := &vt100{t: t}
	p := &output.Steps{Screen: s, Lines: s}
	shows := func(row string, past ...string) {
		t.Helper()
		if s.row != row || strings.Join(s.past, "|") != strings.Join(past, "|") {
			t.Errorf("the terminal shows %q after %q, want %q after %q", s.row, s.past, row, past)
		}
	}
	p.Write([]byte("begins\n"))
	shows("", "begins")
	p.Step("one of three", false)
	shows("one of three", "begins")
	p.Step("two", true)
	shows("two", "begins")
	p.Write([]byte("a warning\n"))
	shows("two", "begins", "a warning")
	p.End()
	shows("", "begins", "a warning")
	p.Write([]byte("done\n"))
	p.End()
	shows("", "begins", "a warning", "done")
}

// TestProgressWithoutTerminal asserts that milestones are lines.
func TestProgressWithoutTerminal(t *testing.T) {
	var out bytes.Buffer
	p := &output.Steps{Lines: &out}
	p.Step("one", true)
	p.Step("two", false)
	p.Write([]byte("a warning\n"))
	p.Step("three", true)
	p.End()
	if got, want := out.String(), "one\na warning\nthree\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}
