package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"text/tabwriter"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
)

const defaultServer = "http://" + defaultListen

// requestTimeout bounds a question to the server; none of those asked here makes it wait longer.
const requestTimeout = 30 * time.Second

// noAnswer is a server that did not answer: nothing listens there, or the connection broke.
type noAnswer struct {
	server *serverAddress
	err    error
}

func (e *noAnswer) Error() string {
	err := e.err
	if u, ok := errors.AsType[*url.Error](err); ok { // it would name the whole URL
		err = u.Err
	}
	return fmt.Sprintf("no answer from %s: %v", e.server, err)
}
func (e *noAnswer) Unwrap() error { return e.err }

// ask reads a document from the server.
func ask(cmd *cobra.Command, server *serverAddress, path string) ([]byte, error) {
	base, err := server.check(cmd.Context())
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(cmd.Context(), http.MethodGet, base+path, nil)
	if err != nil {
		return nil, usageError{fmt.Errorf("ask %s for %s: malformed address", server, path)}
	}
	c := http.Client{Timeout: requestTimeout}
	resp, err := c.Do(req)
	if err != nil {
		return nil, &noAnswer{server, err}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, &noAnswer{server, err}
	}
	if resp.StatusCode == http.StatusOK {
		return text, nil
	}
	refusal := client.Error{Status: resp.StatusCode}
	if err := json.Unmarshal(text, &refusal); err != nil || refusal.Code == "" {
		return nil, fmt.Errorf("%s answered %s: %w", server, resp.Status, client.ErrUnexpectedAnswer)
	}
	return nil, &refusal
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

// isTerminal reports whether a person may be reading what is written.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
