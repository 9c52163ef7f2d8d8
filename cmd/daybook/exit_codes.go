package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cluster"
	"github.com/daybookq/daybook/cmd/daybook/internal/certificates"
	"github.com/daybookq/daybook/cmd/daybook/internal/checkpoint"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/input"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/serve"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/ingest/backup"
	"github.com/daybookq/daybook/internal/filelock"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
)

func newExitCodes() *cobra.Command {
	long := "All commands use these exit codes:\n\n"
	for _, e := range terminal.ExitCodes {
		long += fmt.Sprintf("  %3d  %s\n", e.Code, e.Meaning)
	}
	// Without Run it is a help topic, not a command.
	return &cobra.Command{Use: "exit-codes", Short: "List the exit codes", Long: long}
}

// exitCode returns the exit code of a command that returned this error.
func exitCode(err error) int {
	corrupt, isCorrupt := errors.AsType[*journal.CorruptError](err)
	_, isUsage := errors.AsType[terminal.UsageError](err)
	refused, isRefused := errors.AsType[*client.Error](err)
	_, isSilent := errors.AsType[*remote.NoAnswerError](err)
	_, isPath := errors.AsType[*fs.PathError](err)
	_, isCertificate := errors.AsType[*certificates.Error](err)
	_, isInput := errors.AsType[*input.Error](err)
	_, isChanged := errors.AsType[*checkpoint.InputChangedError](err)
	ended, isEnded := errors.AsType[*notCompleted](err)
	_, isFormat := errors.AsType[*input.FormatError](err)
	switch {
	case errors.Is(err, terminal.ErrInterrupted):
		return terminal.ExitSignal + int(syscall.SIGINT)
	case isUsage:
		return terminal.ExitUsage
	case isEnded && ended.status == job.Cancelled.String():
		return terminal.ExitJobCancelled
	case isEnded:
		return terminal.ExitJobFailed
	case errors.Is(err, errWatchTimeout), errors.Is(err, errWaitTimeout):
		return terminal.ExitTimeout
	case errors.Is(err, ingest.ErrInUse), errors.Is(err, filelock.ErrLocked), errors.Is(err, backup.ErrInUse):
		return terminal.ExitDataInUse
	case errors.Is(err, serve.ErrListen):
		return terminal.ExitListen
	case errors.Is(err, errProblems):
		return terminal.ExitProblems
	case errors.Is(err, journal.ErrVersion), errors.Is(err, store.ErrNewerFormat), errors.Is(err, store.ErrOlderFormat), errors.Is(err, backup.ErrVersion):
		return terminal.ExitFormat
	case isCorrupt && corrupt != nil,
		errors.Is(err, journal.ErrForeign), errors.Is(err, journal.ErrCursor), errors.Is(err, store.ErrForeignJournal), errors.Is(err, store.ErrDamaged), errors.Is(err, backup.ErrDamaged), errors.Is(err, backup.ErrBlobDamaged):
		return terminal.ExitCorrupt
	case errors.Is(err, ingest.ErrNoJournal), errors.Is(err, cluster.ErrNoLog), errors.Is(err, backup.ErrNoBackup):
		return terminal.ExitNoData
	case errors.Is(err, journal.ErrClockAhead):
		return terminal.ExitClock
	case errors.Is(err, errSystem):
		return terminal.ExitSystem
	case errors.Is(err, client.ErrUndecodable):
		return terminal.ExitUndecodable
	case errors.Is(err, client.ErrUnknown):
		return terminal.ExitUnknown
	case isRefused && refused.Status == http.StatusNotFound && refused.Code != "route_not_found":
		return terminal.ExitNotFound
	case errors.Is(err, client.ErrNotFound) && !isRefused:
		return terminal.ExitNotFound
	case isRefused, errors.Is(err, client.ErrTooLarge):
		return terminal.ExitRefused
	case isSilent, errors.Is(err, config.ErrNoServer), errors.Is(err, client.ErrUnavailable), errors.Is(err, client.ErrUnexpectedAnswer):
		return terminal.ExitNoAnswer
	case isPath, isCertificate, isInput, isChanged, isFormat, errors.Is(err, ingest.ErrNoBase), errors.Is(err, syscall.ENOSPC), errors.Is(err, ingest.ErrDiskFull), errors.Is(err, backup.ErrNotEmpty), errors.Is(err, blob.ErrNoSpace):
		return terminal.ExitFile
	}
	return terminal.ExitError
}

// hintFor returns the next step after an error of a command, or "". cmd may be nil.
func hintFor(cmd *cobra.Command, err error) string {
	switch exitCode(err) {
	case terminal.ExitUsage:
		if cmd != nil && cmd.HasParent() && cmd.Name() != "help" {
			return fmt.Sprintf("`daybook help %s` shows its arguments and flags.", strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" "))
		}
		return "`daybook help` lists the commands, and `daybook help COMMAND` the flags of one."
	case terminal.ExitDataInUse:
		return "Stop the process that uses it, or name another directory with --data. The lock is on the directory itself: there is no lock file to remove."
	case terminal.ExitListen:
		if errors.Is(err, syscall.EADDRNOTAVAIL) {
			return "No network interface of this machine has that address; choose another with --listen."
		}
		return "Stop the process that listens there, or choose another address with --listen (port 0 means any free port)."
	case terminal.ExitNoAnswer:
		if errors.Is(err, config.ErrNoServer) {
			return "" // its text has the next step
		}
		if hint := remote.TLSHint(err); hint != "" {
			return hint
		}
		return "Check that `daybook serve` runs, and that --server (or DAYBOOK_SERVER) is its address."
	case terminal.ExitFormat:
		if errors.Is(err, store.ErrOlderFormat) {
			return "" // its text has the next step
		}
		return "Use the version of daybook that wrote the data, or a newer one."
	case terminal.ExitSystem:
		return "Run the server on Linux or macOS, and connect to it with --server http://ADDRESS."
	case terminal.ExitClock:
		return "If the wall clock is right, start with --allow-clock-ahead. The journal's time then runs at half speed until the wall clock has caught up."
	}
	return ""
}
