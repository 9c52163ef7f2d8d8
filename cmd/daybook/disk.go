package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job"
)

// diskSample is how many jobs of a queue and status are read to estimate the bytes of all.
const diskSample = 10

// diskUse is the output of `daybook disk`.
type diskUse struct {
	FreeBytes    int64      `json:"disk_free_bytes"`
	JournalBytes int64      `json:"journal_bytes"`
	StoreBytes   int64      `json:"store_bytes"`
	History      historyUse `json:"history"` // a part of the store
	BlobBytes    int64      `json:"blob_bytes"`
	Queues       []queueUse `json:"queues"`
}

// historyUse is the size of the history of jobs, its bound, and how far it reaches, in unix ms.
type historyUse struct {
	Bytes    int64 `json:"bytes"`
	MaxBytes int64 `json:"max_bytes"`
	Since    int64 `json:"since"`
}

// queueUse is the estimated size of the jobs of a queue.
type queueUse struct {
	Client     string `json:"client"`
	Type       string `json:"type"`
	Jobs       int64  `json:"jobs"`
	Ended      int64  `json:"ended"`
	Bytes      int64  `json:"estimated_bytes"`
	EndedBytes int64  `json:"estimated_ended_bytes"`
}

func newDisk() *cobra.Command {
	var r remote.Command
	var limit int
	cmd := &cobra.Command{
		Use:   "disk",
		Short: "Show what fills the disk",
		Long: `Show how many bytes the journal, the store and the blobs have, how many are free, and which queues have the most.

The bytes of a queue are an estimate: the command reads a few of the oldest jobs of each status, multiplies the
mean length of their documents by the number of jobs, and, if that is more than the journal and the store have,
divides their bytes in this ratio. Ended jobs
are removed when their retention is over; "daybook rm --queue CLIENT/TYPE --status completed" removes them now. The
space of removed jobs is free after the store has been compacted in the background, and that of old volumes of the
journal when all of their commands are in the store.`,
		Example: `  daybook disk
  daybook disk --limit 0 --json`,
		Args: cobra.NoArgs,
	}
	remote.Over(&r, cmd, func(cmd *cobra.Command, _ []string) error {
		if limit < 0 {
			return terminal.Usagef("--limit is %d; it must be 0 or more", limit)
		}
		if err := r.Connect(cmd); err != nil {
			return err
		}
		use, err := readDiskUse(cmd, &r)
		if err != nil {
			return err
		}
		left := 0
		if limit > 0 && len(use.Queues) > limit {
			left = len(use.Queues) - limit
			use.Queues = use.Queues[:limit]
		}
		if r.AsJSON {
			return json.NewEncoder(r.Out).Encode(&use)
		}
		return printDiskUse(&r, &use, left)
	})
	cmd.Flags().IntVar(&limit, "limit", 20, "how many queues are listed; 0 means all")
	remote.JSONFlag(cmd, &r.AsJSON)
	return cmd
}

// readDiskUse returns the figures of a server, and its queues, the one with the most bytes first.
func readDiskUse(cmd *cobra.Command, r *remote.Command) (use diskUse, err error) {
	stats, err := r.Client.Stats(cmd.Context())
	if err != nil {
		return use, err
	}
	use = diskUse{FreeBytes: stats.DiskFree, JournalBytes: stats.Journal.Bytes, StoreBytes: stats.Store.Bytes, BlobBytes: stats.Blobs, History: historyUse{stats.History.Bytes, stats.History.MaxBytes, stats.History.Since}, Queues: []queueUse{}}
	for q, err := range r.Client.Queues(cmd.Context(), "") {
		if err != nil {
			return use, err
		}
		of := queueUse{Client: q.Client, Type: q.Type}
		for _, status := range job.Statuses {
			n := q.Counts[status.String()]
			if n == 0 {
				continue
			}
			mean, err := meanBytes(cmd, r, &q, status)
			if err != nil {
				return use, err
			}
			of.Jobs += n
			of.Bytes += n * mean
			if status.Terminal() {
				of.Ended += n
				of.EndedBytes += n * mean
			}
		}
		use.Queues = append(use.Queues, of)
	}
	use.share()
	slices.SortStableFunc(use.Queues, func(a, b queueUse) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return use, nil
}

// share scales the bytes of all queues down to the size of the journal and the store, if the documents are larger: they
// are compressed there.
func (use *diskUse) share() {
	var documents int64
	for i := range use.Queues {
		documents += use.Queues[i].Bytes
	}
	kept := use.JournalBytes + use.StoreBytes
	if documents <= kept {
		return
	}
	ratio := float64(kept) / float64(documents)
	for i := range use.Queues {
		q := &use.Queues[i]
		q.Bytes, q.EndedBytes = int64(ratio*float64(q.Bytes)), int64(ratio*float64(q.EndedBytes))
	}
}

// meanBytes returns the mean length of the documents of a queue's oldest jobs with a status.
func meanBytes(cmd *cobra.Command, r *remote.Command, q *client.Queue, status job.Status) (int64, error) {
	query := url.Values{"client": {q.Client}, "type": {q.Type}, "status": {status.String()}, "limit": {strconv.Itoa(diskSample)}}
	var bytes, jobs int64
	err := r.EachDocument(cmd, "/jobs", query, "jobs", func(doc json.RawMessage) (bool, error) {
		bytes += int64(len(doc))
		jobs++
		return jobs < diskSample, nil
	})
	return bytes / max(jobs, 1), err
}

func printDiskUse(r *remote.Command, use *diskUse, left int) error {
	err := terminal.Table(r.Out, func(row func(...any)) {
		row("disk free", terminal.SizeText(use.FreeBytes))
		row("journal", terminal.SizeText(use.JournalBytes))
		row("store", terminal.SizeText(use.StoreBytes))
		row("history", historyText(use.History.Bytes, use.History.MaxBytes, use.History.Since))
		row("blobs", terminal.SizeText(use.BlobBytes))
	})
	if err != nil || len(use.Queues) == 0 {
		return err
	}
	fmt.Fprintln(r.Out)
	err = terminal.Table(r.Out, func(row func(...any)) {
		row("CLIENT", "TYPE", "JOBS", "SIZE", "ENDED", "SIZE OF ENDED")
		for _, q := range use.Queues {
			row(q.Client, q.Type, q.Jobs, terminal.SizeText(q.Bytes), q.Ended, terminal.SizeText(q.EndedBytes))
		}
	})
	if err == nil && left > 0 {
		_, err = fmt.Fprintf(r.Out, "queues with less: %d; --limit 0 lists all\n", left)
	}
	return err
}
