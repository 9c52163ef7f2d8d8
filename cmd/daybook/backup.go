package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/files"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/ingest/backup"
)

// defaultKeep is how many backups are kept. A week of daily backups has a state from before a mistake that somebody
// notices late, and costs little: files of the store that the backups share are stored once.
const defaultKeep = 7

func newBackup() *cobra.Command {
	var r remote.Command
	var noBlobs, bySize bool
	var keep int
	cmd := &cobra.Command{
		Use:   "backup DIR",
		Short: "Back up a running server into a directory",
		Long: `Back up a running server into a directory, which is created if it does not exist. The server goes on
meanwhile. The backup has everything that the server had acknowledged when the command began.

Each backup is a directory in DIR, named by its time in UTC, such as DIR/20261123T180500.123Z. It appears when
it is complete, on disk and verified: the digests of all files, the records of the journal, and every invariant
that ` + "`daybook check`" + ` checks. If the command is killed, the earlier backups are as they were, and the next backup
removes what it has left.

The backups share the blobs, which are in DIR/blobs. Only those that are not there yet are fetched. Those that
are there are read, and fetched again if their bytes have changed. --blobs-by-size compares their sizes only,
which is faster. With --no-blobs they are left out. Files of the store that did not change since the backup before are hard links to
its files.

Use a directory for each server: DIR is refused if it has backups of another one, or is the data
directory of a server, or inside one.

After a backup, the oldest ones are removed, so that --keep of them stay, and then the blobs that none of these
has. ` + "`daybook restore`" + ` makes a data directory of a backup.`,
		Example: `  daybook backup /backups/daybook
  daybook backup --server http://queue.internal:1717 --keep 30 --json /backups/daybook`,
		Args: cobra.ExactArgs(1),
	}
	r.Check = func(*cobra.Command, []string) error {
		if keep < 0 {
			return terminal.Usagef("--keep must be 0 or more, not %d", keep)
		}
		return nil
	}
	remote.Connected(&r, cmd, func(cmd *cobra.Command, args []string) error {
		return makeBackup(cmd, r.Client, args[0], noBlobs, bySize, keep, r.AsJSON)
	})
	remote.JSONFlag(cmd, &r.AsJSON)
	cmd.Flags().BoolVar(&noBlobs, "no-blobs", false, "leave the blobs out")
	cmd.Flags().BoolVar(&bySize, "blobs-by-size", false, "do not read the blobs that DIR has; compare their sizes only")
	cmd.MarkFlagsMutuallyExclusive("no-blobs", "blobs-by-size")
	cmd.Flags().IntVar(&keep, "keep", defaultKeep, "how many backups stay in DIR; 0 means all")
	return cmd
}

// backupReport is the JSON output of the commands for backups.
type backupReport struct {
	Backup      string           `json:"backup"`         // its directory
	Data        string           `json:"data,omitempty"` // the restored data directory
	TakenAt     int64            `json:"taken_at"`       // unix ms
	Cursor      uint64           `json:"cursor"`         // of its store
	LastSeq     uint64           `json:"last_seq"`       // of its journal
	Jobs        int64            `json:"jobs"`           // in the state at JobsSeq
	JobsSeq     uint64           `json:"jobs_seq"`       // the last command that Jobs includes: the cursor until the journal is applied
	JobStatuses map[string]int64 `json:"by_status,omitempty"`
	Keys        int              `json:"keys,omitempty"` // in the backup
	KeysRevoked bool             `json:"keys_revoked,omitempty"`
	Files       int              `json:"files"`
	Bytes       int64            `json:"bytes"` // of the files, without blobs
	HasBlobs    bool             `json:"has_blobs"`
	Blobs       int              `json:"blobs"`
	BlobBytes   int64            `json:"blob_bytes"`
	NewBlobs    *int             `json:"new_blobs,omitempty"`      // fetched
	Removed     []string         `json:"removed,omitempty"`        // earlier backups
	Damaged     []string         `json:"damaged_blobs,omitempty"`  // that the backup lacks
	Repaired    []string         `json:"repaired_blobs,omitempty"` // that had changed in the directory and were fetched again
	BlobsBySize bool             `json:"blobs_by_size,omitempty"`  // only the sizes of earlier blobs were compared
	Seconds     float64          `json:"seconds"`
}

func (r *backupReport) describe(m *backup.Manifest, blobs *backup.Blobs) {
	r.TakenAt, r.Cursor, r.LastSeq, r.Files, r.Bytes = m.TakenAt, m.Cursor, m.Last, len(m.Files), m.Bytes()
	r.JobsSeq = m.Cursor
	if r.HasBlobs = blobs != nil; r.HasBlobs {
		r.Blobs, r.BlobBytes = blobs.Count()
	}
}

// jobsText describes the jobs and commands of a backup. A restore applies the commands that the count of jobs does not
// include.
func (r *backupReport) jobsText() string {
	if r.JobsSeq == r.LastSeq {
		return fmt.Sprintf("%d jobs, up to seq %d", r.Jobs, r.LastSeq)
	}
	return fmt.Sprintf("%d jobs at seq %d, and the commands after it up to seq %d", r.Jobs, r.JobsSeq, r.LastSeq)
}

// blobsText describes the blobs of a backup.
func (r *backupReport) blobsText() string {
	if !r.HasBlobs {
		return "without blobs"
	}
	return fmt.Sprintf("%d blobs with %s", r.Blobs, terminal.SizeText(r.BlobBytes))
}

func makeBackup(cmd *cobra.Command, c *client.Client, path string, noBlobs, bySize bool, keep int, asJSON bool) (err error) {
	began := time.Now()
	dir, err := backup.OpenDirectory(path, true)
	if errors.Is(err, backup.ErrServerData) {
		return terminal.Usage(err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	dir.BlobsBySize = bySize
	ctx := cmd.Context()
	if err := acceptsServer(ctx, dir, c); err != nil {
		return err
	}
	var blobs backup.BlobSource
	if !noBlobs {
		source := &serverBlobs{c: c}
		source.clients, err = c.BlobClients(ctx)
		switch {
		case errors.Is(err, client.ErrNoBlobs): // there are no blobs to leave out
		case err != nil:
			return err
		default:
			blobs = source
		}
	}
	made, err := dir.Make(ctx, func(ctx context.Context) (io.ReadCloser, error) { return openBackup(ctx, c) }, blobs, keep)
	if err != nil {
		return err
	}
	if len(made.Removed) > 0 {
		if _, err := dir.SweepBlobs(ctx); err != nil {
			return fmt.Errorf("the backup %s is complete: %w", made.Path, err)
		}
	}
	r := backupReport{Backup: made.Path, Jobs: made.Verified.Jobs, Removed: made.Removed, Damaged: made.Damaged, Repaired: made.Repaired, BlobsBySize: bySize, Seconds: time.Since(began).Seconds()}
	r.describe(made.Verified.Manifest, made.Verified.Blobs)
	if r.HasBlobs {
		r.NewBlobs = &made.NewBlobs
	}
	if err := r.print(cmd.OutOrStdout(), asJSON); err != nil {
		return err
	}
	if len(r.Damaged) > 0 {
		return fmt.Errorf("the backup is complete but for %d blobs: %w: %s; next step: store them again", len(r.Damaged), backup.ErrBlobDamaged, strings.Join(r.Damaged[:min(len(r.Damaged), 10)], ", "))
	}
	return nil
}

// acceptsServer refuses a directory with another server's backups, before blobs are fetched into it.
func acceptsServer(ctx context.Context, dir *backup.Directory, c *client.Client) error {
	text, err := c.Stats(ctx)
	if err != nil {
		return err
	}
	var stats ingest.Stats
	if err := json.Unmarshal(text.Text, &stats); err != nil {
		return remote.Unreadable(err)
	}
	err = dir.Accepts(stats.Journal.UUID)
	if errors.Is(err, backup.ErrOtherServer) {
		return terminal.Usage(err)
	}
	return err
}

// print prints the report of a new backup.
func (r *backupReport) print(out io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(out).Encode(r)
	}
	text := r.blobsText()
	if r.HasBlobs {
		text += fmt.Sprintf(", of which %d were fetched", *r.NewBlobs)
	}
	verified := "verified"
	if r.BlobsBySize {
		verified = "verified but for earlier blobs, whose sizes were compared"
	}
	_, err := fmt.Fprintf(out, "%s: %s; %d files with %s; %s; %s; %.1f s\n", r.Backup, r.jobsText(), r.Files, terminal.SizeText(r.Bytes), text, verified, r.Seconds)
	for _, address := range r.Repaired {
		if err == nil {
			_, err = fmt.Fprintf(out, "fetched again, since its bytes had changed in the directory of the backups: %s\n", address)
		}
	}
	for _, removed := range r.Removed {
		if err == nil {
			_, err = fmt.Fprintf(out, "removed %s\n", removed)
		}
	}
	return err
}

// backupRunning is how long a backup waits for one in progress. The server may need some time to notice that the
// command which requested it was killed.
const backupRunning = 15 * time.Second

// openBackup requests a backup.
func openBackup(ctx context.Context, c *client.Client) (io.ReadCloser, error) {
	give := time.Now().Add(backupRunning)
	for {
		r, err := c.Backup(ctx)
		refused, ok := errors.AsType[*client.Error](err)
		if !ok || refused.Code != "backup_running" || time.Now().After(give) {
			return r, err
		}
		select {
		case <-time.After(backupRunning / 50):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// serverBlobs are the blobs of a server.
type serverBlobs struct {
	c       *client.Client
	clients []string // of the first request; nil: not requested yet
}

func (s *serverBlobs) Clients(ctx context.Context) ([]string, error) {
	if clients := s.clients; clients != nil {
		s.clients = nil
		return clients, nil
	}
	return s.c.BlobClients(ctx)
}

func (s *serverBlobs) List(ctx context.Context, of string) iter.Seq2[backup.BlobInfo, error] {
	return func(yield func(backup.BlobInfo, error) bool) {
		for b, err := range s.c.Blobs(of).All(ctx) {
			if !yield(backup.BlobInfo{Address: b.Address, Size: b.Size}, err) {
				return
			}
		}
	}
}

func (s *serverBlobs) Get(ctx context.Context, of, address string) (io.ReadCloser, error) {
	r, err := s.c.Blobs(of).Open(ctx, address)
	switch {
	case errors.Is(err, client.ErrNotFound):
		return nil, backup.ErrBlobGone
	case err != nil:
		return nil, damagedBlob(err)
	}
	return serverBlob{r}, nil
}

// serverBlob is a blob that is read from a server.
type serverBlob struct{ *files.BlobReader }

func (b serverBlob) Read(p []byte) (int, error) {
	n, err := b.BlobReader.Read(p)
	return n, damagedBlob(err)
}

func damagedBlob(err error) error {
	if errors.Is(err, client.ErrBlobDamaged) {
		return fmt.Errorf("%w: %w", backup.ErrBlobDamaged, err)
	}
	return err
}
