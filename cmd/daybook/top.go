package main

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/cmd/daybook/internal/top"
)

func newTop() *cobra.Command {
	var r remote.Command
	var o top.Options
	var once bool
	every := config.DurationFlag(top.DefaultInterval)
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
	config.EncryptionFlag(cmd, &r.Server)
	remote.Over(&r, cmd, func(cmd *cobra.Command, _ []string) error {
		o.Interval = time.Duration(every)
		if err := o.Check(); err != nil {
			return terminal.Usage(err)
		}
		if !once && !r.AsJSON && (!terminal.IsTerminal(r.Out) || !terminal.IsTerminalInput(cmd.InOrStdin())) {
			return terminal.Usage(errNoTerminal)
		}
		// Report at once if no server runs at the address. Later, top waits for it.
		if err := r.Connect(cmd); err != nil {
			return err
		}
		o.Client, o.Address = r.Client, r.Server.String()
		if once || r.AsJSON {
			return top.Once(cmd.Context(), o, r.Out, r.AsJSON)
		}
		return top.Live(cmd.Context(), o, cmd.InOrStdin(), r.Out)
	})
	flags := cmd.Flags()
	flags.Var(&every, "interval", "time between two refreshes, 1s to 1m")
	flags.StringVar(&o.Sort, "sort", top.SortKeys()[0], "column by which queues are sorted: "+strings.Join(top.SortKeys(), ", "))
	flags.BoolVar(&once, "once", false, "print one table, and end")
	flags.BoolVar(&r.AsJSON, "json", false, "print one JSON document, and end")
	config.CompleteFlag(cmd, "sort", func(*cobra.Command, string) []string { return top.SortKeys() })
	return cmd
}

// errNoTerminal means that a command that draws on a terminal runs without one.
var errNoTerminal = errors.New("daybook top requires a terminal; --once prints one table, and --json a document")
