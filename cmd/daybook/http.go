package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

const defaultServer = "http://" + defaultListen

// requestTimeout bounds a question to the server; none of those asked here makes it wait longer.
const requestTimeout = 30 * time.Second

func serverFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "server", defaultServer, "address of the server")
}

// ask gets a document of the server.
func ask(cmd *cobra.Command, server, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(cmd.Context(), http.MethodGet, strings.TrimSuffix(server, "/")+path, nil)
	if err != nil {
		return nil, usageError{err}
	}
	c := http.Client{Timeout: requestTimeout}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if resp.StatusCode == http.StatusOK {
		return text, nil
	}
	var problem struct{ Code, Detail string }
	if err := json.Unmarshal(text, &problem); err != nil || problem.Code == "" {
		return nil, fmt.Errorf("%s answered %s, which is not an answer of this kind of server", server, resp.Status)
	}
	return nil, fmt.Errorf("%s (%s)", problem.Detail, problem.Code)
}

// table writes rows in columns.
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

// moment shows unix milliseconds.
func moment(ms int64) string { return time.UnixMilli(ms).Format("2006-01-02 15:04:05.000 -07:00") }

// interval shows milliseconds, to three digits or so.
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

// volume shows a number of bytes.
func volume(n int64) string {
	const units = "kMGTP"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/1024, 0
	for v >= 1024 && unit < len(units)-1 {
		v /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", v, units[unit])
}

// isTerminal reports whether somebody watches.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
