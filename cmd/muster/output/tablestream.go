package output

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

// write prints a row without the empty cells at its end.
func (s *Stream) write(row []Cell) error {
	s.width = widen(s.width, row)
	last := len(row) - 1
	for last > 0 && row[last].Text == "" {
		last--
	}
	return s.Out.writeRow(row[:last+1], s.width)
}
