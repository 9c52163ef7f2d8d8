// Package plot draws the results of a comparison: a panel for each block, with the median rate of each driver and work as
// a dot, and the range from the least to the greatest as a line, on a logarithmic scale. It also draws the latencies that
// bench/open measured (open_loop.go).
package plot

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"os"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/daybookq/daybook/bench/peers/measure"
)

const (
	columns    = 2
	panelWidth = 14 * vg.Centimeter
	rowHeight  = 0.5 * vg.Centimeter // of a result
	frame      = 2.2 * vg.Centimeter // the title and the axis of a panel
	margin     = 0.5 * vg.Centimeter
	footer     = 1.0 * vg.Centimeter
)

var (
	ours   = color.RGBA{R: 0xc0, G: 0x39, B: 0x2b, A: 0xff}
	theirs = color.RGBA{R: 0x2c, G: 0x3e, B: 0x50, A: 0xff}
)

// Write draws a report into an SVG file. If nothing was measured, it writes nothing.
func Write(path string, r *measure.Report) error {
	type placed struct {
		panel         *plot.Plot
		column        int
		below, height vg.Length // how far its upper edge is below the upper edge of the picture
	}
	var panels []placed
	var heights [columns]vg.Length
	for _, b := range r.Blocks {
		var results []*measure.Result
		for _, result := range r.Results {
			if result.Block == b.Name && len(result.Turns) > 0 {
				results = append(results, result)
			}
		}
		if len(results) == 0 {
			continue
		}
		p, err := panel(b, results)
		if err != nil {
			return err
		}
		column := 0 // the shortest one
		for i, h := range heights {
			if h < heights[column] {
				column = i
			}
		}
		height := frame + vg.Length(len(results))*rowHeight
		panels = append(panels, placed{p, column, heights[column], height})
		heights[column] += height
	}
	if len(panels) == 0 {
		return nil
	}
	width, height := columns*panelWidth, footer+slices.Max(heights[:])
	canvas := vgsvg.New(width, height)
	area := draw.New(canvas)
	area.SetColor(color.White)
	area.Fill(area.Rectangle.Path())
	for _, p := range panels {
		left := vg.Length(p.column) * panelWidth
		p.panel.Draw(draw.Crop(area, left+margin, left+panelWidth-margin-width, height-p.below-p.height+margin/2, -p.below-margin/2))
	}
	style := text.Style{Color: color.Black, Handler: plot.DefaultTextHandler}
	sans(vg.Points(9.5), &style.Font)
	area.FillText(style, vg.Point{X: margin, Y: margin}, caption(r))
	return save(path, canvas)
}

// save writes a picture into a file.
func save(path string, canvas *vgsvg.Canvas) error {
	var drawn bytes.Buffer
	if _, err := canvas.WriteTo(&drawn); err != nil {
		return err
	}
	// A viewer that lacks the font uses one with the same widths, or at least one without serifs.
	svg := bytes.ReplaceAll(drawn.Bytes(), []byte("font-family:Liberation Sans"), []byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif"))
	return os.WriteFile(path, svg, 0o644)
}

// caption says what the plot shows, and when and on which machine it was measured.
func caption(r *measure.Report) string {
	return fmt.Sprintf("Dots: the median of %d turns; lines: the least and the greatest. %s, Daybook at commit %s, %s, %d cores, Linux %s.",
		r.Settings.Rounds, r.Date.Format("2006-01-02"), r.Commit, r.Machine.Processor, r.Machine.Cores, r.Machine.Kernel)
}

// sans is the font of all text.
func sans(size vg.Length, styles ...*font.Font) {
	for _, s := range styles {
		*s = font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	}
}

// dots are the medians of some results, one below the other.
type dots struct {
	plotter.XYs
	errors plotter.XErrors
}

// XError returns how far the least and the greatest figure are from the median.
func (d dots) XError(i int) (low, high float64) { return d.errors[i].Low, d.errors[i].High }

func panel(b measure.Block, results []*measure.Result) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = b.Title
	p.X.Label.Text = "jobs/s"
	sans(vg.Points(12), &p.Title.TextStyle.Font)
	sans(vg.Points(9.5), &p.X.Label.TextStyle.Font, &p.X.Tick.Label.Font, &p.Y.Tick.Label.Font)
	p.X.Label.Position = draw.PosRight
	p.Add(plotter.NewGrid())
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, decades{}
	var names []string
	byColour := map[color.RGBA]*dots{ours: {}, theirs: {}}
	low, high := math.Inf(1), 0.0
	for i, r := range results {
		rate := r.Over(measure.TurnResult.Rate)
		y := float64(len(results) - 1 - i)
		d := byColour[theirs]
		if strings.HasPrefix(r.Driver, "daybook") {
			d = byColour[ours]
		}
		d.XYs = append(d.XYs, plotter.XY{X: rate.Median, Y: y})
		d.errors = append(d.errors, struct{ Low, High float64 }{rate.Median - rate.Min, rate.Max - rate.Median})
		name := r.Driver
		if len(b.Works) > 1 || r.Work != b.Works[0].Name {
			name += ", " + r.Work
		}
		names = append([]string{name + "   "}, names...) // the spaces are for viewers with a wider font
		low, high = min(low, rate.Min), max(high, rate.Max)
	}
	for colour, d := range byColour {
		if len(d.XYs) == 0 {
			continue
		}
		points, err := plotter.NewScatter(d.XYs)
		if err != nil {
			return nil, err
		}
		points.GlyphStyle = draw.GlyphStyle{Color: colour, Radius: vg.Points(3.5), Shape: draw.CircleGlyph{}}
		bars, err := plotter.NewXErrorBars(d)
		if err != nil {
			return nil, err
		}
		bars.LineStyle.Color, bars.LineStyle.Width = colour, vg.Points(1.2)
		p.Add(bars, points)
	}
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.6, float64(len(results))-0.4
	p.X.Min = math.Pow(10, math.Floor(math.Log10(low)))
	p.X.Max = math.Pow(10, math.Ceil(math.Log10(high*1.01)))
	return p, nil
}

// decades puts a mark with a name at each power of ten, and marks without a name at two and five times the power.
type decades struct{}

func (decades) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for ten := math.Pow(10, math.Floor(math.Log10(low))); ten <= high*1.001; ten *= 10 {
		ticks = append(ticks, plot.Tick{Value: ten, Label: name(ten)}, plot.Tick{Value: 2 * ten}, plot.Tick{Value: 5 * ten})
	}
	return ticks
}

func name(x float64) string {
	switch {
	case x >= 1e6:
		return fmt.Sprintf("%.3g M", x/1e6)
	case x >= 1e3:
		return fmt.Sprintf("%.3g k", x/1e3)
	}
	return fmt.Sprintf("%.3g", x)
}
