package main

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"muster/generator/simulation"
)

// The chart's measures.
const (
	chartWidth   = 30 * vg.Centimeter
	panelHeight  = 8 * vg.Centimeter
	legendHeight = 1.6 * vg.Centimeter
	groupWidth   = 0.84 // of the distance from workload to workload
)

// palette tells algorithms apart, also for people who do not see red and green
// alike: Okabe and Ito's colours, with a light blue and a grey added.
func palette(i int) color.Color {
	colours := []color.RGBA{
		{0, 114, 178, 255}, {86, 180, 233, 255}, {213, 94, 0, 255}, {230, 159, 0, 255}, {0, 158, 115, 255},
		{140, 90, 50, 255}, {240, 228, 66, 255}, {204, 121, 167, 255}, {110, 110, 110, 255},
	}
	return colours[i%len(colours)]
}

// panel is one measure of all workloads and algorithms.
type panel struct {
	title string
	value func(simulation.Row) float64
	bound func(simulation.Row) float64 // optional
}

func panels() []panel {
	return []panel{
		{title: "p95 wait, in seconds; the black line is the lower bound",
			value: func(r simulation.Row) float64 { return r.Wait.P95.Seconds() },
			bound: func(r simulation.Row) float64 { return r.Bound.P95.Seconds() }},
		{title: "agents started in vain, for each 100 jobs",
			value: func(r simulation.Row) float64 { return 100 * float64(r.InVain) / float64(max(1, r.Jobs)) }},
		{title: "agent-hours idle; all three scales grow by powers of ten",
			value: func(r simulation.Row) float64 { return r.Idle.Hours() }},
	}
}

// writeChart draws a panel for each measure, one below the other.
func writeChart(out io.Writer, cases []simulation.Case, algorithms []simulation.Named, rows []simulation.Row) error {
	all := panels()
	height := legendHeight + vg.Length(len(all))*panelHeight
	canvas := vgsvg.New(chartWidth, height)
	whole := draw.New(canvas)
	whole.SetColor(color.White)
	whole.Fill(whole.Rectangle.Path())
	for i, p := range all {
		drawn, err := p.draw(cases, algorithms, rows)
		if err != nil {
			return err
		}
		top := height - legendHeight - vg.Length(i)*panelHeight
		drawn.Draw(draw.Crop(whole, 8, -8, top-panelHeight+6, top-height))
	}
	drawLegend(draw.Crop(whole, 8, -8, height-legendHeight, -6), algorithms)
	var drawn strings.Builder
	if _, err := canvas.WriteTo(&drawn); err != nil {
		return err
	}
	// Who does not have the font shall have one like it.
	_, err := io.WriteString(out, strings.ReplaceAll(drawn.String(), "font-family:Liberation Sans;", "font-family:'Liberation Sans',Arial,Helvetica,sans-serif;"))
	return err
}

func chartFont(size vg.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}

func (p panel) draw(cases []simulation.Case, algorithms []simulation.Named, rows []simulation.Row) (*plot.Plot, error) {
	d := plot.New()
	d.Title.Text = p.title
	d.Title.TextStyle.Font = chartFont(13)
	d.Title.Padding = 4
	d.X.Tick.Label.Font, d.Y.Tick.Label.Font = chartFont(12), chartFont(11)
	var names []string
	highest := 0.0
	for i, c := range cases {
		names = append(names, c.Workload.Name)
		for j := range algorithms {
			highest = max(highest, p.value(rows[i*len(algorithms)+j]))
		}
	}
	d.NominalX(names...)
	d.X.Min, d.X.Max = -0.5, float64(len(cases))-0.5
	d.X.Tick.Width, d.X.Width = 0, 0.5
	d.Y.Min, d.Y.Max = 0, max(1, scale(highest)*1.05)
	d.Y.Tick.Marker = plot.ConstantTicks(ticks(highest))
	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	grid.Horizontal.Color = color.Gray{225}
	d.Add(grid)
	for i := range cases {
		for j := range algorithms {
			r := rows[i*len(algorithms)+j]
			if err := p.bar(d, i, j, len(algorithms), r); err != nil {
				return nil, err
			}
		}
	}
	return d, nil
}

// scale is where a value stands on an axis: by powers of ten, but from nothing.
func scale(v float64) float64 { return math.Log10(1 + v) }

// ticks label nothing, one, and each power of ten.
func ticks(highest float64) []plot.Tick {
	ticks := []plot.Tick{{Value: 0, Label: "0"}}
	for v := 1.0; v <= max(10, highest*1.2); v *= 10 {
		ticks = append(ticks, plot.Tick{Value: scale(v), Label: fmt.Sprintf("%g", v)})
		if v*3 <= highest*1.2 {
			ticks = append(ticks, plot.Tick{Value: scale(v * 3), Label: fmt.Sprintf("%g", v*3)})
		}
	}
	return ticks
}

// bar draws algorithm j of n in the group of workload i.
func (p panel) bar(d *plot.Plot, i, j, n int, r simulation.Row) error {
	width := groupWidth / float64(n)
	left := float64(i) - groupWidth/2 + float64(j)*width
	right, top := left+width*0.86, max(scale(p.value(r)), 0.012*d.Y.Max)
	b, err := plotter.NewPolygon(plotter.XYs{{X: left, Y: 0}, {X: right, Y: 0}, {X: right, Y: top}, {X: left, Y: top}})
	if err != nil {
		return err
	}
	b.Color, b.LineStyle.Width = palette(j), 0
	d.Add(b)
	if p.bound == nil {
		return nil
	}
	y := scale(p.bound(r))
	line, err := plotter.NewLine(plotter.XYs{{X: left - width*0.07, Y: y}, {X: left + width*0.93, Y: y}})
	if err != nil {
		return err
	}
	line.Width, line.Color = 1.4, color.Black
	d.Add(line)
	return nil
}

// drawLegend names the colours in two lines.
func drawLegend(c draw.Canvas, algorithms []simulation.Named) {
	style := text.Style{Color: color.Black, Font: chartFont(12), Handler: plot.DefaultTextHandler, YAlign: draw.YCenter}
	half := (len(algorithms) + 1) / 2
	step := (c.Max.X - c.Min.X) / vg.Length(half)
	for i, a := range algorithms {
		x := c.Min.X + vg.Length(i%half)*step
		y := c.Max.Y - 10 - vg.Length(i/half)*18
		c.SetColor(palette(i))
		c.Fill(vg.Rectangle{Min: vg.Point{X: x, Y: y - 5}, Max: vg.Point{X: x + 12, Y: y + 5}}.Path())
		c.FillText(style, vg.Point{X: x + 17, Y: y}, a.Name)
	}
}
