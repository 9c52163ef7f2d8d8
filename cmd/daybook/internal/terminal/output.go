package terminal

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"
	"github.com/docker/go-units"
	"github.com/mattn/go-isatty"
)

// Table writes rows in aligned columns. It quotes a cell that could change a terminal. If w is a terminal, the statuses
// in cells have colours.
func Table(w io.Writer, rows func(row func(cells ...any))) error {
	var lines [][]string
	var widths []int
	rows(func(cells ...any) {
		line := make([]string, len(cells))
		for i, c := range cells {
			line[i] = PlainCell(fmt.Sprint(c))
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], ansi.StringWidth(line[i]))
		}
		for len(line) > 0 && line[len(line)-1] == "" {
			line = line[:len(line)-1]
		}
		lines = append(lines, line)
	})
	coloured := HasColours(w)
	out := bufio.NewWriter(w)
	for n, line := range lines {
		for i, text := range line {
			shown := text
			if coloured && isStatus(lines, n, i) {
				shown = InColour(text)
			}
			out.WriteString(shown) // Flush returns the error
			if i < len(line)-1 {
				out.WriteString(strings.Repeat(" ", widths[i]-ansi.StringWidth(text)+2))
			}
		}
		out.WriteByte('\n')
	}
	return out.Flush()
}

// isStatus reports whether a cell of a table is a status: it is below the head STATUS or STATE, or below the empty head
// of notes, or beside one of these words. A name that equals a status does not count.
func isStatus(lines [][]string, line, column int) bool {
	if head := lines[0]; line > 0 && (column >= len(head) || head[column] == "STATUS" || head[column] == "STATE") {
		return true
	}
	first := lines[line][0]
	return column == 1 && (first == "status" || first == "state")
}

// PlainCell returns a text in quotes if it has control characters.
func PlainCell(text string) string {
	if strings.IndexFunc(text, unicode.IsControl) >= 0 {
		return strconv.Quote(text)
	}
	return text
}

// colours are the colours of statuses and states, as numbers of the escape sequence SGR.
var colours = map[string]string{
	"pending": "33", "deferred": "33", "paused": "33", "in_progress": "36", "active": "36",
	"completed": "32", "failed": "31", "cancelled": "2", "ready": "32", "ALIVE": "32", "DEAD": "31", "LOST": "31", "ENDED": "2",
}

// InColour returns a status with its colour, and any other text as it is.
func InColour(text string) string {
	if code, ok := colours[text]; ok {
		return "\x1b[" + code + "m" + text + "\x1b[0m"
	}
	return text
}

// HasColours reports whether text written to w may have colours: w is a terminal that supports them, and the variable
// NO_COLOR is empty (https://no-color.org).
func HasColours(w io.Writer) bool {
	return IsTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// JobsText returns a number of jobs as text.
func JobsText[N int | int64](n N) string { return NumberText(n, "job", "jobs") }

// NumberText returns a number of things as text.
func NumberText[N int | int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// OrDash returns a text, or - in place of an empty one.
func OrDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// SizeText returns a number of bytes as text, such as 1.5MiB.
func SizeText[N int64 | uint64](n N) string { return units.BytesSize(float64(n)) }

// Moment returns unix milliseconds as a date and time.
func Moment(ms int64) string { return time.UnixMilli(ms).Format("2006-01-02 15:04:05.000 -07:00") }

// Interval returns milliseconds as a duration, rounded to about three digits.
func Interval(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d >= time.Hour:
		return d.Round(time.Minute).String()
	case d >= time.Minute:
		return d.Round(time.Second).String()
	}
	return d.String()
}

// IsTerminal reports whether w is a terminal, so that a person may be reading.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// IsTerminalInput reports whether r is a terminal, so that a person can be asked.
func IsTerminalInput(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
