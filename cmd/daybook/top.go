package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/ingest"
)

const (
	defaultTopEvery = 2 * time.Second
	minTopEvery     = time.Second
	maxTopEvery     = time.Minute
	// topTimeout bounds the requests of one refresh.
	topTimeout = 10 * time.Second
	// maxTopQueues bounds how many queues a refresh reads.
	maxTopQueues = 10_000
	jobsPage     = 1000
	// shownFailed is how many failed jobs are shown, and maxFailedRead how many are read to find the newest.
	shownFailed   = 100
	maxFailedRead = 2000
)

func newTop() *cobra.Command {
	var r remote
	var sort string
	var once bool
	every := config.DurationFlag(defaultTopEvery)
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show queues and figures of the server, live",
		Long: `Show the server and its queues, and refresh them until q is pressed: for each queue the jobs by status, how many
were created, completed and failed per second, and how long the next pending job has been waiting.

  arrows, j, k, PgUp, PgDn, Home, End   select a queue
  s, r                                  sort by the next column; reverse the order
  /                                     show only queues whose names contain a text; Esc shows all
  p                                     pause the queue, or resume it, after a question
  Enter                                 show the newest failed jobs of the queue, with their errors; Esc goes back
  Space                                 refresh now
  ?                                     help
  q, Ctrl-C                             end

Rates are differences of counts over the last refreshes. Jobs that were purged or removed in that time are missing in
them. Each refresh reads at most 10,000 queues. If the server does not answer, the last figures stay, with a note,
until it does.

It ends with its terminal, too: when the window is closed, or after SIGHUP.

With --once, the command prints one table without rates and ends. Without a terminal, --once or --json is required.`,
		Example: `  daybook top
  daybook top --sort failed --interval 5s
  daybook top --once`,
		Args: cobra.NoArgs,
	}
	overServer(&r, cmd, func(cmd *cobra.Command, _ []string) error {
		column := slices.IndexFunc(topColumns, func(c topColumn) bool { return c.key == sort })
		if column < 0 {
			return terminal.Usagef("--sort must be one of %s, and not %q", topSortKeys(), sort)
		}
		if d := time.Duration(every); d < minTopEvery || d > maxTopEvery {
			return terminal.Usagef("--interval must be from %s to %s", minTopEvery, maxTopEvery)
		}
		if !once && !r.asJSON && (!terminal.IsTerminal(r.out) || !terminal.IsTerminalInput(cmd.InOrStdin())) {
			return terminal.Usage(errNoTerminal)
		}
		// Report at once if no server runs at the address. Later, top waits for it.
		address, err := reach(cmd, &r.server)
		if err != nil {
			return err
		}
		source := &topServer{cmd.Context(), client.New(address, client.Options{RetryFor: -1, Timeout: topTimeout})}
		if once || r.asJSON {
			return topOnce(&r, source, column)
		}
		return topLive(cmd, &r, source, column, time.Duration(every))
	})
	flags := cmd.Flags()
	flags.Var(&every, "interval", "time between two refreshes, 1s to 1m")
	flags.StringVar(&sort, "sort", topColumns[0].key, "column by which queues are sorted: "+topSortKeys())
	flags.BoolVar(&once, "once", false, "print one table, and end")
	flags.BoolVar(&r.asJSON, "json", false, "print one JSON document, and end")
	config.CompleteFlag(cmd, "sort", func(*cobra.Command, string) []string {
		var keys []string
		for _, c := range topColumns {
			keys = append(keys, c.key)
		}
		return keys
	})
	return cmd
}

// errNoTerminal means that a command that draws on a terminal runs without one.
var errNoTerminal = errors.New("daybook top requires a terminal; --once prints one table, and --json a document")

// topLive shows the figures until a key, a signal of StopSignals or the end of the terminal.
func topLive(cmd *cobra.Command, r *remote, source topSource, column int, every time.Duration) error {
	m := newTopModel(source, column, every, r.server.String())
	var program *tea.Program
	var gone atomic.Bool // the terminal is closed
	hangUp := func() {
		gone.Store(true)
		program.Quit()
	}
	in := cmd.InOrStdin()
	if file, ok := in.(*os.File); ok {
		in = &terminalInput{file, hangUp}
	}
	options := []tea.ProgramOption{
		tea.WithContext(cmd.Context()), tea.WithInput(in), tea.WithOutput(r.out),
		tea.WithoutSignalHandler(), // bubbletea's handler would end the process at a second signal of the same wish, and leave the terminal as it is
	}
	if !terminal.HasColours(r.out) {
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

func (t *terminalInput) Read(p []byte) (int, error) {
	n, err := t.File.Read(p)
	if err != nil {
		t.gone()
		err = io.EOF // the program does not report it
	}
	return n, err
}

// topOnce prints the figures of one moment.
func topOnce(r *remote, source topSource, column int) error {
	s := source.read()
	if s.err != nil {
		return s.err
	}
	if r.asJSON {
		return json.NewEncoder(r.out).Encode(map[string]any{
			"at": s.at.UnixMilli(), "server": r.server.String(), "version": s.version, "stats": json.RawMessage(s.text), "queues": s.queues, "more": s.more,
		})
	}
	m := newTopModel(source, column, defaultTopEvery, r.server.String())
	m.add(s)
	for _, line := range m.header() {
		if _, err := fmt.Fprintln(r.out, line); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintln(r.out); err != nil {
		return err
	}
	rows := m.rows()
	return terminal.Table(r.out, func(row func(...any)) {
		line := []any{"queue", ""}
		for _, c := range topColumns {
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
			for _, c := range topColumns {
				if c.ofQueue != nil && !c.isRate {
					line = append(line, c.text(&rows[i]))
				}
			}
			row(line...)
		}
	})
}

// topSource is the source of the figures.
type topSource interface {
	read() topSnapshot
	pause(q queueName, pause bool) error
	failed(q queueName) ([]*client.Job, error)
}

// topSnapshot holds the figures of one moment. If err is set, there are none.
type topSnapshot struct {
	at      time.Time
	version client.Version
	stats   ingest.Stats
	text    []byte // of the stats
	queues  []client.Queue
	more    bool // some queues were not read
	err     error
}

// topServer reads the figures of a server.
type topServer struct {
	ctx context.Context // of the command
	c   *client.Client
}

func (t *topServer) read() (s topSnapshot) {
	ctx, stop := context.WithTimeout(t.ctx, topTimeout)
	defer stop()
	s.err = t.fill(ctx, &s)
	s.at = time.Now()
	return s
}

func (t *topServer) fill(ctx context.Context, s *topSnapshot) (err error) {
	if s.version, err = t.c.Version(ctx); err != nil {
		return err
	}
	stats, err := t.c.Stats(ctx)
	if err != nil {
		return err
	}
	s.text = stats.Text
	if err := json.Unmarshal(s.text, &s.stats); err != nil {
		return unreadable(err)
	}
	s.queues = []client.Queue{}
	for q, err := range t.c.Queues(ctx, "") {
		if err != nil {
			return err
		}
		if len(s.queues) == maxTopQueues {
			s.more = true
			break
		}
		s.queues = append(s.queues, q)
	}
	return nil
}

func (t *topServer) pause(q queueName, pause bool) (err error) {
	ctx, stop := context.WithTimeout(t.ctx, topTimeout)
	defer stop()
	if pause {
		_, err = t.c.Pause(ctx, q.client, q.typ)
	} else {
		_, err = t.c.Resume(ctx, q.client, q.typ)
	}
	return err
}

// failed returns the newest failed jobs, the newest first. The server lists the oldest of a period first. So failed
// makes the period longer until it has enough jobs, and shorter while it has more than are read.
func (t *topServer) failed(q queueName) (list []*client.Job, err error) {
	ctx, stop := context.WithTimeout(t.ctx, topTimeout)
	defer stop()
	now := time.Now()
	few, many := time.Duration(0), 2*keptFailed // periods before now that have too few and too many jobs
	var best []*client.Job                      // the jobs of the period few
	for age := time.Minute; ; {
		if list, err = t.failedSince(ctx, q, now.Add(-age)); err != nil {
			return nil, err
		}
		switch {
		case len(list) == maxFailedRead:
			many = age
		case len(list) >= shownFailed:
			return newestFirst(list), nil
		case age >= keptFailed:
			all, err := t.failedSince(ctx, q, time.UnixMilli(0))
			if err == nil && len(all) < maxFailedRead {
				list = all
			}
			return newestFirst(list), err
		default:
			few, best = age, list
		}
		if many-few < 10*time.Millisecond { // so many jobs were created at the same time
			return newestFirst(best), nil
		}
		if age *= 8; age >= many {
			age = few + (many-few)/2
		}
	}
}

func newestFirst(list []*client.Job) []*client.Job {
	slices.Reverse(list)
	return list[:min(len(list), shownFailed)]
}

// keptFailed is longer than the default retention of servers.
const keptFailed = 32 * 24 * time.Hour

// failedSince returns the failed jobs that were created since a time, the oldest first, and maxFailedRead at most.
func (t *topServer) failedSince(ctx context.Context, q queueName, since time.Time) (list []*client.Job, err error) {
	query := client.JobsQuery{
		Client: q.client, Type: q.typ, Status: "failed", PageSize: jobsPage, Fields: []string{"error", "status", "code", "run_attempts", "completed_at", "why"},
		CreatedAfter: since.UnixMilli(),
	}
	for j, err := range t.c.Jobs(ctx, query) {
		if err != nil {
			return nil, err
		}
		if list = append(list, j); len(list) == maxFailedRead {
			break
		}
	}
	return list, nil
}
