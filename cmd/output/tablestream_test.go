package output_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"muster/cmd/output"
)

// TestStream asserts that the columns fit the first rows, that a wider row widens its column,
// and that only the first rows are buffered.
func TestStream(t *testing.T) {
	var text bytes.Buffer
	s := &output.Stream{Out: output.Output{Text: &text, Raw: &text}, Head: []string{"A", "B", "C"}}
	row := func(a, b, c string) {
		t.Helper()
		if err := s.Row([]output.Cell{{Text: a}, {Text: b, Style: output.Bad}, {Text: c}}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 39 {
		row(fmt.Sprint(i), "two words", "")
	}
	if text.Len() > 0 {
		t.Errorf("printed %q before it was known how wide the columns are", &text)
	}
	row("1", "x", "end")
	before := text.Len()
	row("wider than all", "x", "end")
	row("1", "x", "end")
	lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	want := map[int]string{0: "A   B          C", 1: "0   two words", 40: "1   x          end", 41: "wider than all  x          end", 42: "1               x          end"}
	for i, line := range want {
		if len(lines) != 43 || lines[i] != line {
			t.Errorf("line %d of %d is %q, want %q", i, len(lines), lines[i], line)
		}
	}
	if before == 0 {
		t.Error("the first rows were held back")
	}

	text.Reset()
	s = &output.Stream{Out: output.Output{Text: &text, Raw: &text, Colour: true}, Head: []string{"A", "B", "C"}}
	if err := s.Flush(); err != nil || text.Len() > 0 {
		t.Errorf("without a row: %q, %v", &text, err)
	}
	row("1", "x", "end")
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if got := text.String(); got != "\x1b[1mA\x1b[0m  \x1b[1mB\x1b[0m  \x1b[1mC\x1b[0m\n1  \x1b[31mx\x1b[0m  end\n" {
		t.Errorf("with colours: %q", got)
	}
}

// TestStreamLimit asserts that rows are at most as wide as the limit: one column is shortened, more in rows with cells
// after it.
func TestStreamLimit(t *testing.T) {
	var text bytes.Buffer
	s := &output.Stream{Out: output.Output{Text: &text, Raw: &text}, Head: []string{"A", "WHY", "C"}, Limit: 40, Cut: 1}
	long := strings.Repeat("x", 50)
	for _, row := range [][]string{{"1", long, ""}, {"2", "short", "the end"}, {"3", long, "end"}} {
		if err := s.Row([]output.Cell{{Text: row[0]}, {Text: row[1]}, {Text: row[2]}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	want := "A  WHY                           C\n" +
		"1  " + strings.Repeat("x", 36) + "…\n" +
		"2  short                         the end\n" +
		"3  " + strings.Repeat("x", 27) + "…  end\n"
	if text.String() != want {
		t.Errorf("%s\nwant\n%s", &text, want)
	}
}
