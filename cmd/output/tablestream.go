package output

// Stream is a table that prints rows while they arrive. The first rows determine the widths of
// the columns; a later, wider row widens its column from there on. The last column has no
// width.
type Stream struct {
	Out  Output
	Head []string

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
		s.width = widen(s.width, row)
	}
	for _, row := range rows {
		if err := s.write(row); err != nil {
			return err
		}
	}
	return nil
}

// write prints a row without empty cells at its end.
func (s *Stream) write(row []Cell) error {
	s.width = widen(s.width, row)
	last := len(row) - 1
	for last > 0 && row[last].Text == "" {
		last--
	}
	return s.Out.writeRow(row[:last+1], s.width)
}
