package main

import (
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/mattn/go-isatty"
)

// table writes rows in aligned columns.
func table(w io.Writer, rows func(row func(cells ...any))) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	var err error
	rows(func(cells ...any) {
		for i, cell := range cells {
			if i > 0 && err == nil {
				_, err = io.WriteString(t, "\t")
			}
			if err == nil {
				_, err = fmt.Fprint(t, cell)
			}
		}
		if err == nil {
			_, err = io.WriteString(t, "\n")
		}
	})
	if err == nil {
		err = t.Flush()
	}
	return err
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
