package bench

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/load"
	"github.com/daybookq/daybook/internal/load/limits"
)

// Report is the result of bench, as --json prints it.
type Report struct {
	Version       string    `json:"version"`
	Server        string    `json:"server"`
	ServerVersion string    `json:"server_version"`
	Date          time.Time `json:"date"`
	Seconds       float64   `json:"seconds"`
	Processors    int       `json:"processors"`
	System        string    `json:"system"`
	*limits.Result
}

func (r *Report) Print(w io.Writer) error {
	if r.Fsync != nil {
		if _, err := fmt.Fprintf(w, "append 4 KiB and fsync, a plain file: p50 %s, p99 %s, longest %s\n", ms(r.Fsync.P50), ms(r.Fsync.P99), ms(r.Fsync.Max)); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(w, "shortest round trip to the server: %s\n\n", ms(r.RoundTripMs)); err != nil {
		return err
	}
	err := terminal.Table(w, func(row func(...any)) {
		row("", "callers", "jobs/s", "p99 at peak", "at half: p50", "p99", "p99.9", "longest")
		for _, m := range r.Works {
			peak := ms(m.Peak.Latency.P99)
			if m.Peak.Latency.Count == 0 {
				peak = ""
			}
			h := m.Half.Latency
			row(m.Title, m.Callers, load.Thousands(m.Peak.JobsPerSecond), peak, ms(h.P50), ms(h.P99), ms(h.P999), ms(h.Max))
		}
	})
	if err != nil {
		return err
	}
	for _, m := range r.Works {
		if h := m.Half; !h.KeptUp {
			if _, err := fmt.Fprintf(w, "\n%s: the server did not keep up with %s jobs/s; %d calls at most waited to be sent.\n", m.Title, load.Thousands(h.JobsPerSecond), h.MostBehind); err != nil {
				return err
			}
		}
	}
	if _, err := fmt.Fprintf(w, "\nWhat limits it:\n"); err != nil {
		return err
	}
	for _, m := range r.Works {
		if _, err := fmt.Fprintf(w, "* %s: %s\n", m.Title, m.Limit.Text); err != nil {
			return err
		}
	}
	if r.Others == "" {
		return nil
	}
	_, err = fmt.Fprintf(w, "\n%s\n", r.Others)
	return err
}

// ms returns milliseconds as text with about three digits.
func ms(ms float64) string {
	digits := 2
	if ms >= 10 {
		digits = 1
	}
	if ms >= 100 {
		digits = 0
	}
	return strconv.FormatFloat(ms, 'f', digits, 64) + " ms"
}

// Progress shows the progress of a measurement: in one line that changes if errs is a terminal, otherwise in a
// line for each step.
type Progress struct {
	Errs     io.Writer
	Terminal bool
	Length   time.Duration

	mu   sync.Mutex // guards the field below
	open bool       // the terminal shows a line
}

func NewProgress(errs io.Writer, length time.Duration) *Progress {
	return &Progress{Errs: errs, Terminal: terminal.IsTerminal(errs), Length: length}
}

// Say writes a line that stays.
func (p *Progress) Say(format string, args ...any) {
	fmt.Fprintf(p, "daybook: "+format+"\n", args...)
}

const barLength = 20

func (p *Progress) Step(s limits.Step) {
	filled := min(barLength, int(s.Part*barLength))
	p.line("[%s%s] %s left  %s", strings.Repeat("#", filled), strings.Repeat(".", barLength-filled), time.Duration((1-s.Part)*float64(p.Length)).Round(time.Second), s.Text)
}

func (p *Progress) Deleting(jobs int64) { p.line("deleting the queues: %d jobs so far", jobs) }

func (p *Progress) line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Terminal {
		p.open = true
		fmt.Fprintf(p.Errs, "\r\x1b[K"+format, args...)
		return
	}
	fmt.Fprintf(p.Errs, format+"\n", args...)
}

// Write writes the log of the server.
func (p *Progress) Write(text []byte) (int, error) {
	p.End()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Errs.Write(text)
}

// End clears the line of a terminal.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open {
		p.open = false
		fmt.Fprint(p.Errs, "\r\x1b[K")
	}
}
