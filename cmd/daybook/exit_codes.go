package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/ingest/backup"
	"github.com/daybookq/daybook/internal/filelock"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
)

// The exit codes are part of the interface: scripts and service managers depend on them.
const (
	exitOK = iota
	exitError
	exitUsage
	exitDataInUse
	exitListen
	exitCorrupt
	exitProblems
	exitFormat
	exitNoAnswer
	exitRefused
	exitNotFound
	exitNoData
	exitUnknown
	exitFile
	exitClock
	exitJobFailed
	exitJobCancelled
	exitTimeout
	exitSystem

	// A process that a signal ended has the code exitSignal plus the number of the signal, as shells report it.
	exitSignal = 128
)

// exitCodes are the meanings of the codes. `daybook help exit-codes` shows them.
var exitCodes = []struct {
	code    int
	meaning string
}{
	{exitOK, "success"},
	{exitError, "a failure without a code of its own; the message says why"},
	{exitUsage, "the command line, an environment variable or the configuration file is wrong"},
	{exitDataInUse, "another process uses the data directory, the directory of the backups, or the file of add --resume"},
	{exitListen, "the server cannot listen on the address: another process listens there, or this machine does not have the address"},
	{exitCorrupt, "the data or the backup is damaged, or the journal and the store do not belong together; nothing was changed"},
	{exitProblems, "daybook check found problems"},
	{exitFormat, "this version of daybook cannot read the format of the data: the format is newer, or from before the first release"},
	{exitNoAnswer, "the server did not answer, or the answer was not that of a Daybook server; nothing was stored"},
	{exitRefused, "the server refused the request; the message says why"},
	{exitNotFound, "the server has no such job, batch, queue, blob, fileset or handler"},
	{exitNoData, "the data directory does not exist or has no journal, or there is no backup"},
	{exitUnknown, "the server's answer was lost: jobs may or may not have been stored"},
	{exitFile, "a file or the input cannot be read or written, or the disk is full"},
	{exitClock, "the wall clock is more than a day earlier than the last time in the journal"},
	{exitJobFailed, "the job, batch or queue that the command waited for has failed"},
	{exitJobCancelled, "the job or batch that the command waited for was cancelled"},
	{exitTimeout, "what the command waited for did not end within --timeout or --wait-timeout"},
	{exitSystem, "the command does not run on this operating system"},
	{exitSignal + int(syscall.SIGINT), "SIGINT (Ctrl-C) or another signal ended a command that had begun, or a second SIGINT ended the server at once"},
	{exitSignal + int(syscall.SIGHUP), "a second signal, SIGHUP, ended the server or the runner at once"},
	{exitSignal + int(syscall.SIGTERM), "a second SIGTERM ended the server at once"},
}

func newExitCodes() *cobra.Command {
	long := "All commands use these exit codes:\n\n"
	for _, e := range exitCodes {
		long += fmt.Sprintf("  %3d  %s\n", e.code, e.meaning)
	}
	// Without Run it is a help topic, not a command.
	return &cobra.Command{Use: "exit-codes", Short: "List the exit codes", Long: long}
}

// usageError is an error of the command line, the environment or the configuration file.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// silentExit is the exit code of an error that is printed already.
type silentExit int

func (e silentExit) Error() string { return "exit code " + strconv.Itoa(int(e)) }

// errProblems is returned if a check found problems, which are printed already.
var errProblems = errors.New("the check failed")

// errNoData means that a data directory lacks a journal.
var errNoData = errors.New("it has no journal")

// errInterrupted means that SIGINT, or another signal of untilInterrupted, ended a command that had begun.
var errInterrupted = errors.New("interrupted")

func exitCode(err error) int {
	corrupt, isCorrupt := errors.AsType[*journal.CorruptError](err)
	_, isUsage := errors.AsType[usageError](err)
	refused, isRefused := errors.AsType[*client.Error](err)
	_, isSilent := errors.AsType[*noAnswer](err)
	_, isPath := errors.AsType[*fs.PathError](err)
	_, isInput := errors.AsType[*inputError](err)
	_, isChanged := errors.AsType[*errInputChanged](err)
	ended, isEnded := errors.AsType[*notCompleted](err)
	_, isFormat := errors.AsType[*formatError](err)
	switch {
	case errors.Is(err, errInterrupted):
		return exitSignal + int(syscall.SIGINT)
	case isUsage:
		return exitUsage
	case isEnded && ended.status == job.Cancelled.String():
		return exitJobCancelled
	case isEnded:
		return exitJobFailed
	case errors.Is(err, errWatchTimeout), errors.Is(err, errWaitTimeout):
		return exitTimeout
	case errors.Is(err, ingest.ErrInUse), errors.Is(err, filelock.ErrLocked), errors.Is(err, backup.ErrInUse):
		return exitDataInUse
	case errors.Is(err, errListen):
		return exitListen
	case errors.Is(err, errProblems):
		return exitProblems
	case errors.Is(err, journal.ErrVersion), errors.Is(err, store.ErrNewerFormat), errors.Is(err, store.ErrOlderFormat), errors.Is(err, backup.ErrVersion):
		return exitFormat
	case isCorrupt && corrupt != nil,
		errors.Is(err, journal.ErrForeign), errors.Is(err, journal.ErrCursor), errors.Is(err, store.ErrForeignJournal), errors.Is(err, store.ErrDamaged), errors.Is(err, backup.ErrDamaged), errors.Is(err, backup.ErrBlobDamaged):
		return exitCorrupt
	case errors.Is(err, errNoData), errors.Is(err, backup.ErrNoBackup):
		return exitNoData
	case errors.Is(err, journal.ErrClockAhead):
		return exitClock
	case errors.Is(err, errSystem):
		return exitSystem
	case errors.Is(err, client.ErrUnknown):
		return exitUnknown
	case isRefused && refused.Status == http.StatusNotFound && refused.Code != "route_not_found":
		return exitNotFound
	case errors.Is(err, client.ErrNotFound) && !isRefused:
		return exitNotFound
	case isRefused, errors.Is(err, client.ErrTooLarge):
		return exitRefused
	case isSilent, errors.Is(err, errNoServer), errors.Is(err, client.ErrUnavailable), errors.Is(err, client.ErrUnexpectedAnswer):
		return exitNoAnswer
	case isPath, isInput, isChanged, isFormat, errors.Is(err, ingest.ErrNoBase), errors.Is(err, syscall.ENOSPC), errors.Is(err, ingest.ErrDiskFull), errors.Is(err, backup.ErrNotEmpty), errors.Is(err, blob.ErrNoSpace):
		return exitFile
	}
	return exitError
}

// hintFor returns the next step after an error of a command, or "". cmd may be nil.
func hintFor(cmd *cobra.Command, err error) string {
	switch exitCode(err) {
	case exitUsage:
		if cmd != nil && cmd.HasParent() && cmd.Name() != "help" {
			return fmt.Sprintf("`daybook help %s` shows its arguments and flags.", strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" "))
		}
		return "`daybook help` lists the commands, and `daybook help COMMAND` the flags of one."
	case exitDataInUse:
		return "Stop the process that uses it, or name another directory with --data. The lock is on the directory itself: there is no lock file to remove."
	case exitListen:
		if errors.Is(err, syscall.EADDRNOTAVAIL) {
			return "No network interface of this machine has that address; choose another with --listen."
		}
		return "Stop the process that listens there, or choose another address with --listen (port 0 means any free port)."
	case exitNoAnswer:
		if errors.Is(err, errNoServer) {
			return "" // its text has the next step
		}
		return "Check that `daybook serve` runs, and that --server (or DAYBOOK_SERVER) is its address."
	case exitFormat:
		if errors.Is(err, store.ErrOlderFormat) {
			return "" // its text has the next step
		}
		return "Use the version of daybook that wrote the data, or a newer one."
	case exitSystem:
		return "Run the server on Linux or macOS, and connect to it with --server http://ADDRESS."
	case exitClock:
		return "If the wall clock is right, start with --allow-clock-ahead. The journal's time then runs at half speed until the wall clock has caught up."
	}
	return ""
}
