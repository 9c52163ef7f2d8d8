package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/api"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job"
)

func newStats() *cobra.Command {
	var r remote.Command
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Show figures of the server",
		Long: `Show the progress of the server, the number of its jobs, and the speed of its disk.

The watermarks are positions in the journal: appended ≥ synced ≥ applied ≥ flushed. Acknowledged commands
are synced. Reads show the effects of applied commands. Flushed commands no longer need the journal.`,
		Example: "  daybook stats --server http://127.0.0.1:1717",
		Args:    cobra.NoArgs,
	}
	remote.JSONFlag(cmd, &r.AsJSON)
	return remote.Over(&r, cmd, func(cmd *cobra.Command, _ []string) error {
		text, err := r.Ask(cmd, "/stats")
		if err != nil {
			return err
		}
		if r.AsJSON {
			_, err := r.Out.Write(text)
			return err
		}
		var s api.Stats
		if err := json.Unmarshal(text, &s); err != nil {
			return remote.Unreadable(err)
		}
		return printStats(cmd, &s)
	})
}

// stoppedText states that the server hands out no jobs, and how to start it again.
const stoppedText = "stopped: no jobs are handed out until `daybook start`"

// historyText says how far history reaches.
func historyText(bytes, most, since int64) string {
	text := fmt.Sprintf("%s of at most %s", terminal.SizeText(bytes), terminal.SizeText(most))
	if since != 0 {
		text += ", since " + terminal.Moment(since)
	}
	return text
}

func printStats(cmd *cobra.Command, s *api.Stats) error {
	micros := func(us int64) string { return fmt.Sprintf("%.2f ms", float64(us)/1000) }
	return terminal.Table(cmd.OutOrStdout(), func(row func(...any)) {
		state := "ready"
		if !s.Ready {
			state = "not ready: " + s.Reason
		}
		if s.Stopped {
			state += "; " + stoppedText
		}
		row("state", state)
		row("journal time", terminal.Moment(s.Now), fmt.Sprintf("(%+d ms from the wall clock)", s.ClockOffsetMs))
		if s.NextDue > 0 {
			row("next due", terminal.Moment(s.NextDue))
		}
		row("watermarks", fmt.Sprintf("appended %d, synced %d, applied %d, flushed %d", s.Appended, s.Synced, s.Applied, s.Flushed))
		row("lag", fmt.Sprintf("%d commands, %s", s.LagCommands, terminal.SizeText(s.LagBytes)))
		row("queues", s.Queues)
		for _, status := range job.Statuses {
			row(status, s.Jobs[status.String()])
		}
		for status := job.BatchInProgress; int(status) < job.NumBatchStatus; status++ {
			if n := s.Batches[status.String()]; n > 0 {
				row("batches "+strings.ReplaceAll(status.String(), "_", " "), n)
			}
		}
		row("parked claims", s.Parked)
		row("journal", fmt.Sprintf("%s in %d volumes, from seq %d", terminal.SizeText(s.Journal.Bytes), s.Journal.Volumes, s.Journal.First))
		row("fsync", fmt.Sprintf("p50 %s, p99 %s, max %s, count %d", micros(s.Journal.SyncP50Us), micros(s.Journal.SyncP99Us), micros(s.Journal.SyncMaxUs), s.Journal.Syncs))
		row("store", terminal.SizeText(s.Store.Bytes))
		row("history", historyText(s.History.Bytes, s.History.MaxBytes, s.History.Since))
		row("blobs", terminal.SizeText(s.BlobBytes))
		row("disk free", terminal.SizeText(s.DiskFree))
		if s.Journal.Failures > 0 {
			row("failed writes", fmt.Sprintf("%d, repaired %d times; last: %s", s.Journal.Failures, s.Journal.Repairs, s.Journal.LastError))
		}
		if s.Overloaded > 0 {
			row("creates refused", fmt.Sprintf("%d, while ingestion lagged", s.Overloaded))
		}
	})
}
