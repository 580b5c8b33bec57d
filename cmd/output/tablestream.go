package output

import "slices"

// Stream is a table that prints rows while they arrive. The first rows determine the widths of
// the columns; a later, wider row widens its column from there on. The last column has no
// width.
type Stream struct {
	Out  Output
	Head []string
	// Limit is the maximum width of a row; 0: none. It shortens the column with the index Cut, to at least
	// leastCut characters. A row without cells after that column may reach the limit.
	Limit, Cut int

	width []int
	held  [][]Cell
	begun bool
}

// heldRows is the number of rows that determine the widths.
const heldRows = 40

// Row prints a row, or buffers it.
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

// Flush prints the buffered rows; nothing without rows.
func (s *Stream) Flush() error {
	if s.begun || len(s.held) == 0 {
		return nil
	}
	s.begun = true
	rows := append([][]Cell{boldCells(s.Head)}, s.held...)
	s.held = nil
	for _, row := range rows {
		s.measure(row)
	}
	for i := range rows {
		rows[i] = s.fit(rows[i])
	}
	for _, row := range rows {
		if err := s.Out.writeRow(row, s.width); err != nil {
			return err
		}
	}
	return nil
}

// write prints a row.
func (s *Stream) write(row []Cell) error {
	s.measure(row)
	return s.Out.writeRow(s.fit(row), s.width)
}

// measure widens the columns for a row, except the one that is shortened.
func (s *Stream) measure(row []Cell) {
	if s.Limit > 0 {
		row = slices.Clone(row)
		row[s.Cut].Text = ""
	}
	s.width = widen(s.width, row)
}

// leastCut is the minimum width of a column that is shortened.
const leastCut = 20

// fit returns a row without empty cells at its end, shortened to the limit.
func (s *Stream) fit(row []Cell) []Cell {
	last := len(row) - 1
	for last > 0 && row[last].Text == "" {
		last--
	}
	row = row[:last+1]
	if s.Limit == 0 || last < s.Cut {
		return row
	}
	room := s.Limit
	for i, width := range s.width[:last+1] {
		if i != s.Cut {
			room -= width + gap
		}
	}
	room = max(room, leastCut)
	if text := []rune(row[s.Cut].Text); len(text) > room {
		row[s.Cut].Text = string(text[:room-1]) + "…"
	}
	if last > s.Cut {
		s.width = widen(s.width, row)
	}
	return row
}
