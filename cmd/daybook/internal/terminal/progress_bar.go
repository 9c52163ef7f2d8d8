package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
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

// StatusLine is a line at the bottom of a terminal that is written again and again. Lines that are written to it appear
// above. It shows nothing if the output is not a terminal.
type StatusLine struct {
	to io.Writer // nil if it is not a terminal

	mu   sync.Mutex // guards text
	text string     // that is shown
}

const clearLine = "\r\x1b[K"

func NewStatusLine(w io.Writer) *StatusLine {
	if !IsTerminal(w) {
		return &StatusLine{}
	}
	return &StatusLine{to: w}
}

func (s *StatusLine) IsOn() bool { return s.to != nil }

// Show replaces the line. It cuts a text that is wider than the terminal, which could not be replaced otherwise.
func (s *StatusLine) Show(text string) {
	if s.to == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = ansi.Truncate(PlainCell(text), max(terminalWidth(s.to)-1, 1), "")
	fmt.Fprint(s.to, clearLine, s.text) // a failed write does not matter: it only shows the progress
}

// Clear removes the line.
func (s *StatusLine) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.text != "" {
		s.text = ""
		fmt.Fprint(s.to, clearLine)
	}
}

// Write writes lines above. The line must be on.
func (s *StatusLine) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprint(s.to, clearLine)
	n, err := s.to.Write(b)
	fmt.Fprint(s.to, s.text)
	return n, err
}

// terminalWidth returns how many columns a terminal has.
func terminalWidth(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(f.Fd()); err == nil && width > 0 {
			return width
		}
	}
	return DefaultWidth
}
