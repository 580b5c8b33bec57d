package output

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// Stream is a table whose rows come one by one, and may be a great many: the first
// ones are held back until it is known how wide they are, and a later one that is
// wider widens its column from there on. The last column is as wide as it is.
type Stream struct {
	Out  Output
	Head []string

	width []int
	held  [][]Cell
	begun bool
}

// heldRows are the rows that the columns are made to fit.
const heldRows = 40

// Row prints a row, now or with those that follow.
func (s *Stream) Row(cells []Cell) error {
	if s.begun {
		return s.write(cells)
	}
	s.held = append(s.held, cells)
	if len(s.held) < heldRows {
		return nil
	}
	return s.Flush()
}

// Flush prints what is held back; where there was no row, nothing.
func (s *Stream) Flush() error {
	if s.begun || len(s.held) == 0 {
		return nil
	}
	s.begun = true
	head := make([]Cell, len(s.Head))
	for i, name := range s.Head {
		head[i] = Cell{name, Bold}
	}
	rows := append([][]Cell{head}, s.held...)
	s.held = nil
	for _, row := range rows {
		s.widen(row)
	}
	for _, row := range rows {
		if err := s.write(row); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stream) widen(row []Cell) {
	for len(s.width) < len(row) {
		s.width = append(s.width, 0)
	}
	for i, c := range row {
		s.width[i] = max(s.width[i], utf8.RuneCountInString(c.Text))
	}
}

// write prints a row in one piece.
func (s *Stream) write(row []Cell) error {
	s.widen(row)
	last := len(row) - 1
	for last > 0 && row[last].Text == "" {
		last--
	}
	if s.Out.Colour {
		return s.pieces(row[:last+1])
	}
	var line bytes.Buffer
	for i, c := range row[:last+1] {
		line.WriteString(c.Text)
		line.WriteString(s.end(i, last, c))
	}
	_, err := s.Out.Text.Write(line.Bytes())
	return err
}

func (s *Stream) pieces(row []Cell) error {
	for i, c := range row {
		if err := s.Out.write(c); err != nil {
			return err
		}
		if _, err := s.Out.Text.Write([]byte(s.end(i, len(row)-1, c))); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stream) end(i, last int, c Cell) string {
	if i == last {
		return "\n"
	}
	return strings.Repeat(" ", s.width[i]+gap-utf8.RuneCountInString(c.Text))
}
