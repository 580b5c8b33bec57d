package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"
)

// element is an element of an SVG, with the text directly after its start.
type element struct{ name, class, d, text string }

// elements returns the elements of an SVG, which must be well-formed.
func elements(t *testing.T, drawn []byte) []element {
	t.Helper()
	var all []element
	for d := xml.NewDecoder(bytes.NewReader(drawn)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("not XML: %v\n%s", err, drawn)
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := element{name: token.Name.Local}
			for _, a := range token.Attr {
				switch a.Name.Local {
				case "class":
					e.class = a.Value
				case "d":
					e.d = a.Value
				}
			}
			all = append(all, e)
		case xml.CharData:
			if len(all) > 0 {
				all[len(all)-1].text += strings.TrimSpace(string(token))
			}
		}
	}
}

// texts returns the texts of an SVG.
func texts(t *testing.T, drawn []byte) []string {
	t.Helper()
	var all []string
	for _, e := range elements(t, drawn) {
		if e.name == "text" && e.text != "" {
			all = append(all, e.text)
		}
	}
	return all
}

// TestEmptyDots draws a chart without values.
func TestEmptyDots(t *testing.T) {
	texts(t, Dots{}.SVG())
}

// ofSeries matches the class of what is drawn for a series.
var ofSeries = regexp.MustCompile(`class="p[0-9]`)

func TestDots(t *testing.T) {
	c := Dots{
		Title: "A & B", Series: []string{"<ours>", "theirs"}, Rows: []string{"one", "two"},
		Columns: []Column{
			{Title: "wait", Min: 10, Values: [][]float64{{88, 0}, {math.NaN(), 2000}}},
			{Title: "cost", Min: 0.5, Values: [][]float64{{1, 2}, {1, 3}}},
		},
	}
	got := strings.Join(texts(t, c.SVG()), "|")
	for _, want := range []string{"A & B", "<ours>", "theirs", "one", "two", "wait", "cost", "≤ 10", "2000", "|0.5|"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not among the texts %q", want, got)
		}
	}
	if markers := len(ofSeries.FindAll(c.SVG(), -1)); markers != 2+7 {
		t.Errorf("%d markers, want 2 in the legend and 7 of values", markers)
	}
}

// TestLogAxis asserts that all rows share an axis that contains every value, and that small
// values are drawn at its end.
func TestLogAxis(t *testing.T) {
	a := newLogAxis(Column{Min: 10, Values: [][]float64{{0, 100}, {math.NaN(), 1000}}}, 50, 400)
	if a.at(0) != 50 || a.at(10) != 50 || a.at(1000) > 450 || a.at(1000) < 430 {
		t.Errorf("0 is at %v, 10 at %v, 1000 at %v, want 50, 50, and near 450", a.at(0), a.at(10), a.at(1000))
	}
	if first, second := a.at(100)-a.at(10), a.at(1000)-a.at(100); math.Abs(first-second) > 0.2 {
		t.Errorf("10 to 100 is %v, 100 to 1000 is %v", first, second)
	}
	for i, tick := range a.ticks()[1:] {
		if room := a.at(tick.value) - a.at(a.ticks()[i].value); room < tickWidth*0.8 {
			t.Errorf("label %s has %v pixels", tick.label, room)
		}
	}
}

func TestScale(t *testing.T) {
	for _, test := range []struct {
		highest, least, width float64
		step                  float64
		steps                 int
	}{
		{130, 10, 92, 100, 2},
		{449, 10, 92, 500, 1},
		{449, 10, 300, 100, 5},
		{0.4, 10, 92, 5, 2},
		{0.4, 0, 400, 0.1, 4},
		{7572, 24, 92, 5000, 2},
		{100, 0, 400, 20, 5},
		{0, 0, 92, 0.5, 2},
		{3, 0, 1, 5, 1},
	} {
		s := newScale(test.least, test.width, test.highest)
		if s.step != test.step || s.steps != test.steps {
			t.Errorf("%v, at least %v, on %v: %d steps of %v, want %d of %v", test.highest, test.least, test.width, s.steps, s.step, test.steps, test.step)
		}
		if end := s.at(s.step * float64(s.steps)); end != test.width || s.at(0) != 0 || s.at(test.highest) > test.width {
			t.Errorf("%v: the scale ends at %v of %v", test.highest, end, test.width)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.01: "<0.1", 0.06: "0.1", 1: "1", 3.67: "3.7", 9.96: "10", 88.3: "88", 86742: "86742"} {
		if got := number(v); got != want {
			t.Errorf("%v is written %s, want %s", v, got, want)
		}
	}
}
