package plot

import (
	"errors"
	"fmt"
	"image/color"
	"math"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// OpenLoop is the drawn part of the results of bench/open.
type OpenLoop struct {
	Date        time.Time `json:"date"`
	Commit      string    `json:"commit"`
	SecondsEach float64   `json:"seconds_each"`
	Machine     struct {
		Processor string `json:"processor"`
		Cores     int    `json:"cores"`
		Kernel    string `json:"kernel"`
	} `json:"machine"`
	Works []OpenWork `json:"works"`
}

// OpenWork is a work at several rates.
type OpenWork struct {
	Title string     `json:"title"`
	Rates []OpenRate `json:"rates"`
}

// OpenRate is the latency by percentile at one rate.
type OpenRate struct {
	Part       float64 `json:"part"`
	JobsPerSec float64 `json:"jobs_per_s"`
	Curve      []struct {
		Nines float64 `json:"nines"` // the percentile is 100·(1 − 10^−nines)
		Ms    float64 `json:"ms"`
	} `json:"curve"`
}

const (
	openPanelHeight = 9 * vg.Centimeter
	openLines       = 4
	mostNines       = 4 // the end of the axis: 99.99 %
)

// lineColours are the colours of the rates, from the lowest to the highest.
var lineColours = [openLines]color.RGBA{
	{R: 0x27, G: 0xae, B: 0x60, A: 0xff}, {R: 0x29, G: 0x80, B: 0xb9, A: 0xff}, {R: 0xe6, G: 0x7e, B: 0x22, A: 0xff}, {R: 0xc0, G: 0x39, B: 0x2b, A: 0xff},
}

// WriteOpenLoop draws a panel for each work into an SVG file.
func WriteOpenLoop(path string, r *OpenLoop) error {
	if len(r.Works) == 0 {
		return errors.New("there are no works to draw")
	}
	rows := (len(r.Works) + columns - 1) / columns
	width, height := columns*panelWidth, footer+vg.Length(rows)*openPanelHeight
	canvas := vgsvg.New(width, height)
	area := draw.New(canvas)
	area.SetColor(color.White)
	area.Fill(area.Rectangle.Path())
	for i, w := range r.Works {
		p, err := openPanel(w)
		if err != nil {
			return err
		}
		left, below := vg.Length(i%columns)*panelWidth, vg.Length(i/columns)*openPanelHeight
		p.Draw(draw.Crop(area, left+margin, left+panelWidth-margin-width, height-below-openPanelHeight+margin/2, -below-margin/2))
	}
	style := text.Style{Color: color.Black, Handler: plot.DefaultTextHandler}
	sans(vg.Points(9.5), &style.Font)
	area.FillText(style, vg.Point{X: margin, Y: margin}, fmt.Sprintf("Latency from when a call was due to its answer, %.0f s at each rate. %s, commit %s, %s, %d cores, Linux %s.",
		r.SecondsEach, r.Date.Format("2006-01-02"), r.Commit, r.Machine.Processor, r.Machine.Cores, r.Machine.Kernel))
	return save(path, canvas)
}

func openPanel(w OpenWork) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = w.Title
	p.X.Label.Text, p.Y.Label.Text = "percentile", "ms"
	sans(vg.Points(12), &p.Title.TextStyle.Font)
	sans(vg.Points(9.5), &p.X.Label.TextStyle.Font, &p.Y.Label.TextStyle.Font, &p.X.Tick.Label.Font, &p.Y.Tick.Label.Font, &p.Legend.TextStyle.Font)
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades{}
	p.X.Tick.Marker = plot.ConstantTicks{
		{Value: 0, Label: "0"}, {Value: -math.Log10(0.5), Label: "50 %"}, {Value: 1, Label: "90 %"}, {Value: 2, Label: "99 %"}, {Value: 3, Label: "99.9 %"}, {Value: 4, Label: "99.99 %"},
	}
	p.Add(plotter.NewGrid())
	low, high := math.Inf(1), 0.0
	for i, rate := range w.Rates {
		var points plotter.XYs
		for _, c := range rate.Curve {
			if c.Ms > 0 {
				points = append(points, plotter.XY{X: c.Nines, Y: c.Ms})
				low, high = min(low, c.Ms), max(high, c.Ms)
			}
		}
		if len(points) == 0 {
			return nil, fmt.Errorf("%s at %.0f %% has no latencies", w.Title, 100*rate.Part)
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return nil, err
		}
		line.Color, line.Width = lineColours[i%openLines], vg.Points(1.6)
		p.Add(line)
		// The spaces are for viewers with a wider font.
		p.Legend.Add(fmt.Sprintf("%.0f %%: %s jobs/s    ", 100*rate.Part, name(rate.JobsPerSec)), line)
	}
	p.Legend.YOffs = vg.Points(4) // in the lower right corner, below the lines
	p.X.Min, p.X.Max = 0, mostNines*1.02
	p.Y.Min, p.Y.Max = math.Pow(10, math.Floor(math.Log10(low))), math.Pow(10, math.Ceil(math.Log10(high*1.01)))
	return p, nil
}
