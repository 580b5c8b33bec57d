package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// texts are the texts of an SVG; what is no XML fails the test.
func texts(t *testing.T, drawn []byte) []string {
	t.Helper()
	var all []string
	for d, inText := xml.NewDecoder(bytes.NewReader(drawn)), false; ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("not XML: %v\n%s", err, drawn)
		}
		switch token := token.(type) {
		case xml.StartElement:
			inText = token.Name.Local == "text"
		case xml.CharData:
			if inText && strings.TrimSpace(string(token)) != "" {
				all = append(all, string(token))
			}
		}
	}
}

// TestEverythingIsNamed: what a chart shows stands in it as text, whatever the
// names are.
func TestEverythingIsNamed(t *testing.T) {
	b := Bars{
		Title: "A & B", Columns: []string{"one", strings.Repeat("long", 40)}, Names: []string{"<muster>", "other"}, Marked: 1,
		Keys: [2]string{"ours", "theirs"},
		Bands: []Band{{Title: "wait", Unit: "s", Line: "the bound", Panels: []Panel{
			{Values: []float64{88.3, 0}, Line: []float64{50, 50}}, {Values: []float64{0.04, 12345}},
		}}},
	}
	got := texts(t, b.SVG())
	for _, want := range []string{"A & B", "one", "<muster>", "other", "ours", "theirs", "wait", "the bound", "88", "0", "<0.1", "12345", "100 s"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not among the texts %q", want, got)
		}
	}
	if slices.Contains(got, b.Columns[1]) {
		t.Error("a name that is too long is not shortened")
	}
	if !bytes.Equal(b.SVG(), b.SVG()) {
		t.Error("drawn twice, it is not the same")
	}
}

// TestNothingToShow: a chart without numbers is one all the same.
func TestNothingToShow(t *testing.T) {
	texts(t, Bars{}.SVG())
	texts(t, Bars{Columns: []string{"a"}, Names: []string{"b"}, Bands: []Band{{Panels: []Panel{{Values: []float64{0}}}}}}.SVG())
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
		s := newScale(test.least, test.width, Panel{Values: []float64{test.highest}})
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
