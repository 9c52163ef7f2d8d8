package top

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

// DefaultInterval is the time between two refreshes if the user gives none.
const DefaultInterval = 2 * time.Second

const (
	minInterval = time.Second
	maxInterval = time.Minute
)

// Options select the server and the order of its queues.
type Options struct {
	Client   *client.Client
	Address  string        // of the server as it is shown, without a password
	Sort     string        // one of SortKeys
	Interval time.Duration // between two refreshes
}

// Check returns an error for a column that does not exist, and for an interval that is too short or too long.
func (o *Options) Check() error {
	if !slices.Contains(SortKeys(), o.Sort) {
		return fmt.Errorf("--sort must be one of %s, and not %q", strings.Join(SortKeys(), ", "), o.Sort)
	}
	if o.Interval < minInterval || o.Interval > maxInterval {
		return fmt.Errorf("--interval must be from %s to %s", minInterval, maxInterval)
	}
	return nil
}

// open returns a model and its source. ctx bounds the requests.
func (o *Options) open(ctx context.Context) (*model, source) {
	s := &server{ctx, o.Client.With(func(c *client.Options) { c.RetryFor, c.Timeout = -1, requestTimeout })}
	column := slices.Index(SortKeys(), o.Sort)
	return newModel(s, column, o.Interval, o.Address), s
}

// Live shows the figures on the terminal of in and out, until a key, a signal of StopSignals or the end of the terminal.
// It fails if out cannot be written.
func Live(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	m, _ := o.open(ctx)
	var program *tea.Program
	var gone atomic.Bool // the terminal is closed
	hangUp := func() {
		gone.Store(true)
		program.Quit()
	}
	if file, ok := in.(*os.File); ok {
		in = &terminalInput{file, hangUp}
	}
	options := []tea.ProgramOption{
		tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out),
		tea.WithoutSignalHandler(), // bubbletea's handler would end the process at a second signal of the same wish, and leave the terminal as it is
	}
	if !terminal.HasColours(out) {
		options = append(options, tea.WithColorProfile(colorprofile.ASCII))
	}
	program = tea.NewProgram(m, options...)
	end := terminal.OnWishes(func(s os.Signal) {
		switch s {
		case syscall.SIGHUP:
			hangUp()
		case syscall.SIGTERM:
			program.Quit()
		default:
			program.Send(tea.InterruptMsg{})
		}
	}, func(os.Signal) { program.Kill() }, terminal.StopSignals()...)
	defer end()
	_, err := program.Run()
	switch {
	case errors.Is(err, tea.ErrInterrupted):
		return terminal.SilentExit(terminal.ExitSignal + int(syscall.SIGINT))
	case gone.Load():
		return nil // it is no error that the last screen could not be drawn
	}
	return err
}

// terminalInput is the input of a terminal. Without it, top would continue without input after the terminal was closed:
// not every process gets a signal then, and under nohup none does.
type terminalInput struct {
	*os.File
	gone func()
}

// Read implements io.Reader.
func (t *terminalInput) Read(p []byte) (int, error) {
	n, err := t.File.Read(p)
	if err != nil {
		t.gone()
		err = io.EOF // the program does not report it
	}
	return n, err
}

// Once prints the figures of one moment, as a table or in JSON. It fails if the server does not answer.
func Once(ctx context.Context, o Options, out io.Writer, asJSON bool) error {
	m, source := o.open(ctx)
	s := source.read()
	if s.err != nil {
		return s.err
	}
	if asJSON {
		return json.NewEncoder(out).Encode(map[string]any{
			"at": s.at.UnixMilli(), "server": o.Address, "version": s.version, "stats": json.RawMessage(s.text), "queues": s.queues, "more": s.more,
		})
	}
	m.add(s)
	for _, line := range m.header() {
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	rows := m.rows()
	return terminal.Table(out, func(row func(...any)) {
		line := []any{"queue", ""}
		for _, c := range allColumns {
			if c.ofQueue != nil && !c.isRate {
				line = append(line, c.key)
			}
		}
		row(line...)
		for i := range rows {
			state := ""
			if rows[i].Paused {
				state = "paused"
			}
			line := []any{rows[i].name, state}
			for _, c := range allColumns {
				if c.ofQueue != nil && !c.isRate {
					line = append(line, c.text(&rows[i]))
				}
			}
			row(line...)
		}
	})
}
