package output

import (
	"bytes"
	"io"
	"strings"
	"unicode/utf8"
)

// Cell is one cell of a table.
type Cell struct {
	Text  string
	Style Style
}

// Table is a table like kubectl's: a column is as wide as its widest cell, and two spaces apart
// from the next.
type Table struct {
	Head []string
	Rows [][]Cell
}

// gap is the space between columns.
const gap = 2

// Write prints the table.
func (t Table) Write(out Output) error {
	rows := append([][]Cell{boldCells(t.Head)}, t.Rows...)
	var width []int
	for _, row := range rows {
		width = widen(width, row)
	}
	for _, row := range rows {
		if err := out.writeRow(row, width); err != nil {
			return err
		}
	}
	return nil
}

// boldCells returns the head of a table.
func boldCells(names []string) []Cell {
	var row []Cell
	for _, name := range names {
		row = append(row, Cell{name, Bold})
	}
	return row
}

// widen returns the widths of columns with room for a row.
func widen(width []int, row []Cell) []int {
	for i, c := range row {
		if i == len(width) {
			width = append(width, 0)
		}
		width[i] = max(width[i], utf8.RuneCountInString(c.Text))
	}
	return width
}

// writeRow prints a row, in one write if there are no colours.
func (out Output) writeRow(row []Cell, width []int) error {
	var line bytes.Buffer
	to := out
	if !out.Colour {
		to.Text = &line
	}
	for i, c := range row {
		if err := to.write(c); err != nil {
			return err
		}
		end := "\n"
		if i < len(row)-1 {
			end = strings.Repeat(" ", width[i]+gap-utf8.RuneCountInString(c.Text))
		}
		if _, err := io.WriteString(to.Text, end); err != nil {
			return err
		}
	}
	_, err := out.Text.Write(line.Bytes())
	return err
}

// write prints one cell in its style.
func (out Output) write(c Cell) error {
	if !out.Colour || c.Style == Plain {
		_, err := io.WriteString(out.Text, c.Text)
		return err
	}
	if _, err := io.WriteString(out.Raw, "\x1b["+string(c.Style)+"m"); err != nil {
		return err
	}
	_, err := io.WriteString(out.Text, c.Text)
	if _, reset := io.WriteString(out.Raw, "\x1b[0m"); err == nil {
		err = reset
	}
	return err
}
