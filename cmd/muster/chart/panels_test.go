package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	svg "github.com/ajstarks/svgo/float"
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

// TestEverythingIsNamed: what a chart shows stands in it as text, whatever the names are.
func TestEverythingIsNamed(t *testing.T) {
	p := Panels{
		Title: "A & B", Keys: [3]string{"ours", "theirs", "bound"}, X: "cost", Y: "wait",
		Panels: []Panel{
			{Title: "<one>", Line: 88, Points: []Point{
				{"<muster>", 4.2, 88, true}, {"same", 4.2, 88, true}, {"dear", 40, 12, true}, {"rival", 4.5, 60, false}, {"slow", 4.5, 5000, false},
			}},
			{Title: "two"},
			{Title: "three", Points: []Point{{"nothing", 0, 0, false}}},
		},
	}
	got := strings.Join(texts(t, p.SVG()), "|")
	for _, want := range []string{"A & B", "ours", "theirs", "bound", "cost", "wait", "<one>", "<muster>, same", "dear", "rival", "slow ↑5000", "two", "nothing"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not among the texts %q", want, got)
		}
	}
	if !bytes.Equal(p.SVG(), p.SVG()) {
		t.Error("drawn twice, it is not the same")
	}
}

// TestLabelsApart: labels stand beside their points and upon nothing, however near the
// points are to each other.
func TestLabelsApart(t *testing.T) {
	var panel Panel
	for i := range 16 {
		panel.Points = append(panel.Points, Point{Name: strings.Repeat("m", 5+i), X: 4 + float64(i%4)/5, Y: 60 + float64(i)*2, Marked: i%2 == 0})
	}
	p := newPlot(svg.New(io.Discard), 100, 100, 320, panel)
	p.draw("x", "y")
	if len(p.taken) != 2*len(p.spots) {
		t.Errorf("%d spots, and %d places for dots and labels", len(p.spots), len(p.taken))
	}
	for i, a := range p.taken[len(p.spots):] {
		for j, b := range p.taken {
			if len(p.spots)+i != j && a.meets(b) {
				t.Errorf("label %d meets what is at %+v", i, b)
			}
		}
	}
}

// TestNothingToShow: a chart without numbers is one all the same.
func TestNothingToShow(t *testing.T) { texts(t, Panels{}.SVG()) }

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
