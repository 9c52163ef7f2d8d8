package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/ingest/backup"
)

func newRestore() *cobra.Command {
	var data string
	var asJSON, verifyOnly bool
	var o backup.RestoreOptions
	cmd := &cobra.Command{
		Use:   "restore DIR",
		Short: "Make a data directory of a backup",
		Long: `Make a data directory of a backup that ` + "`daybook backup`" + ` has written. DIR is the directory of a backup, such as
/backups/daybook/20261123T180500.123Z, or the directory of several, of which the newest is restored.

The data directory must not exist, or be empty. It is complete or not there: every file has the bytes that
were backed up, the journal was applied, and the check of ` + "`daybook check`" + ` has found no problem. Until then the
files are in a directory beside it, whose name ends in .partial, or if the data directory exists, in its
directory .restore.partial. If the command is killed, the next one removes what it has left. Nothing is
restored of a backup that is damaged.

A data directory that exists may be a mount point, or a link to another directory. It keeps its owner, and
root gives the restored files to that owner.

The restored server is the same server at an earlier time. Do not run it beside the original with the same
bucket of blobs: docs/how-to/backups.md explains what else to consider.

The restored server has the keys of the backup. Keys that were revoked or rotated after it are good again, and the
command says so. With --revoke-keys, all keys are revoked before the directory gets its name. Requests still need a
key then: create one with ` + "`daybook key create --data`" + `, or start the server with --admin-key-file.

With --verify-only, the backup is verified and nothing is restored.`,
		Example: `  daybook restore /backups/daybook --data /var/lib/daybook && daybook serve --data /var/lib/daybook
  daybook restore /backups/daybook --data /var/lib/daybook --revoke-keys
  daybook restore --verify-only /backups/daybook/20261123T180500.123Z`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			began := time.Now()
			path, unlock, err := backup.Find(args[0])
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, unlock()) }()
			r := backupReport{Backup: path}
			if verifyOnly {
				v, err := backup.Verify(cmd.Context(), path, true)
				if err != nil {
					return notThis(path, err)
				}
				r.Jobs = v.Jobs
				r.describe(v.Manifest, v.Blobs)
			} else {
				restored, err := backup.Restore(cmd.Context(), path, data, o)
				if err != nil {
					return notThis(path, err)
				}
				r.Data, r.JobStatuses, r.Keys, r.KeysRevoked = data, restored.Jobs, restored.Keys, o.RevokeKeys
				for _, n := range restored.Jobs {
					r.Jobs += n
				}
				r.describe(restored.Manifest, restored.Blobs)
				r.JobsSeq = restored.Applied
			}
			r.Seconds = time.Since(began).Seconds()
			out := cmd.OutOrStdout()
			if asJSON {
				return json.NewEncoder(out).Encode(r)
			}
			what := "verified"
			if !verifyOnly {
				what = "restored into " + data
			}
			_, err = fmt.Fprintf(out, "%s of %s: %s; %d files with %s; %s; %s; %.1f s\n", r.Backup, terminal.Moment(r.TakenAt), r.jobsText(), r.Files, terminal.SizeText(r.Bytes), r.blobsText(), what, r.Seconds)
			if err == nil && r.Keys > 0 {
				_, err = fmt.Fprint(out, keysText(r.Keys, r.KeysRevoked, data))
			}
			return err
		},
	}
	dataFlag(cmd, &data)
	remote.JSONFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&o.RevokeKeys, "revoke-keys", false, "revoke all keys in the restored data; requests still need a key")
	cmd.Flags().BoolVar(&verifyOnly, "verify-only", false, "verify the backup and restore nothing")
	cmd.MarkFlagsMutuallyExclusive("revoke-keys", "verify-only")
	return cmd
}

// keysText says what a restore means for keys.
func keysText(n int, revoked bool, data string) string {
	if revoked {
		return fmt.Sprintf("revoked all %d keys; requests still need one; next step: daybook key create NAME --role admin --data %s, or start the server with --admin-key-file\n", n, data)
	}
	return fmt.Sprintf("the backup has %d keys; keys that were revoked or rotated after it are good again; next step: revoke them (daybook key list --data %s), or restore with --revoke-keys\n", n, data)
}

// notThis adds the next step to the error of a damaged backup.
func notThis(path string, err error) error {
	if !errors.Is(err, backup.ErrDamaged) {
		return err
	}
	var steps []string
	if _, isBlob := errors.AsType[*backup.DamagedBlob](err); isBlob {
		steps = append(steps, "run daybook backup, which fetches the blob again if the server has it")
	}
	if others := backup.Others(path, err); others != "" {
		steps = append(steps, "restore another backup: "+others)
	}
	if len(steps) == 0 {
		return err
	}
	return fmt.Errorf("%w; next step: %s", err, strings.Join(steps, ", or "))
}
