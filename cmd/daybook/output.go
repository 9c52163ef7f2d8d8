package main

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
	"github.com/mattn/go-isatty"
)

// table writes rows in aligned columns. It quotes a cell that could change a terminal. If w is a terminal, the statuses
// in cells have colours.
func table(w io.Writer, rows func(row func(cells ...any))) error {
	var lines [][]string
	var widths []int
	rows(func(cells ...any) {
		line := make([]string, len(cells))
		for i, c := range cells {
			line[i] = plainCell(fmt.Sprint(c))
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
	coloured := hasColours(w)
	out := bufio.NewWriter(w)
	for n, line := range lines {
		for i, text := range line {
			shown := text
			if coloured && isStatus(lines, n, i) {
				shown = inColour(text)
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

// plainCell returns a text in quotes if it has control characters.
func plainCell(text string) string {
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

// inColour returns a status with its colour, and any other text as it is.
func inColour(text string) string {
	if code, ok := colours[text]; ok {
		return "\x1b[" + code + "m" + text + "\x1b[0m"
	}
	return text
}

// hasColours reports whether text written to w may have colours: w is a terminal that supports them, and the variable
// NO_COLOR is empty (https://no-color.org).
func hasColours(w io.Writer) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// jobsText returns a number of jobs as text.
func jobsText[N int | int64](n N) string { return numberText(n, "job", "jobs") }

// numberText returns a number of things as text.
func numberText[N int | int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// moment returns unix milliseconds as a date and time.
func moment(ms int64) string { return time.UnixMilli(ms).Format("2006-01-02 15:04:05.000 -07:00") }

// interval returns milliseconds as a duration, rounded to about three digits.
func interval(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d >= time.Hour:
		return d.Round(time.Minute).String()
	case d >= time.Minute:
		return d.Round(time.Second).String()
	}
	return d.String()
}

// isTerminal reports whether w is a terminal, so that a person may be reading.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// isTerminalInput reports whether r is a terminal, so that a person can be asked.
func isTerminalInput(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
