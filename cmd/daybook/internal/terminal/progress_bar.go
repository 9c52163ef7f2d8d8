package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"
)

const (
	barWidth     = 24 // characters of a bar
	DefaultWidth = 80 // of a terminal that does not report its width
)

// Bar returns a progress bar, such as [######------------------]. part is from 0 to 1.
func Bar(part float64) string {
	full := int(min(max(part, 0), 1) * barWidth)
	return "[" + strings.Repeat("#", full) + strings.Repeat("-", barWidth-full) + "]"
}

// Percent returns a part as a percentage, rounded down: only all is 100 %.
func Percent(part float64) string { return fmt.Sprintf("%3d %%", int(min(max(part, 0), 1)*100)) }

// Remaining returns how long the rest takes at a rate per second, or "" if that is not known.
func Remaining(rest, perSecond float64) string {
	if rest <= 0 || perSecond <= 0 || rest/perSecond > 1e6*3600 {
		return ""
	}
	return ShortTime(time.Duration(rest / perSecond * float64(time.Second)))
}

// ShortTime returns a duration in whole seconds, or in minutes from an hour on.
func ShortTime(d time.Duration) string {
	if d >= time.Hour {
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return max(d.Round(time.Second), time.Second).String()
}

// StatusLine is a line at the bottom of a terminal that is written again and again. It does nothing if the output is
// not a terminal.
type StatusLine struct {
	to    *os.File // nil if it is not a terminal
	shown bool
}

func NewStatusLine(w io.Writer) *StatusLine {
	if !IsTerminal(w) {
		return &StatusLine{}
	}
	return &StatusLine{to: w.(*os.File)}
}

func (s *StatusLine) IsOn() bool { return s.to != nil }

// Show replaces the line. It cuts a text that is wider than the terminal, which could not be replaced otherwise.
func (s *StatusLine) Show(text string) {
	if s.to == nil {
		return
	}
	s.shown = true
	fmt.Fprintf(s.to, "\r%s\x1b[K", ansi.Truncate(PlainCell(text), max(terminalWidth(s.to)-1, 1), "")) // a failed write does not matter: it only shows the progress
}

// Clear removes the line.
func (s *StatusLine) Clear() {
	if s.shown {
		s.shown = false
		fmt.Fprint(s.to, "\r\x1b[K")
	}
}

// terminalWidth returns how many columns a terminal has.
func terminalWidth(f *os.File) int {
	width, _, err := term.GetSize(f.Fd())
	if err != nil || width <= 0 {
		return DefaultWidth
	}
	return width
}
