package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
)

// The exit codes are part of the interface: scripts and service managers decide by them.
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

	// exitSignal and the number of a signal are what a shell reports for a process that the signal ended.
	exitSignal = 128
)

// exitCodes says what each code means; `daybook help exit-codes` shows it.
var exitCodes = []struct {
	code    int
	meaning string
}{
	{exitOK, "success"},
	{exitError, "a failure that has no code of its own; the message says why"},
	{exitUsage, "the command line, an environment variable or the configuration file is wrong"},
	{exitDataInUse, "another process uses the data directory"},
	{exitListen, "the server cannot listen on the address: another process does, or the address is not this machine's"},
	{exitCorrupt, "the data is damaged, or journal and store do not belong together; nothing was changed"},
	{exitProblems, "check found broken invariants"},
	{exitFormat, "this version of daybook cannot read the format of the data: it is newer, or from before the first release"},
	{exitNoAnswer, "no answer came from the server, or not one of a Daybook server; nothing was stored"},
	{exitRefused, "the request was refused; the message says why"},
	{exitNotFound, "the server has no such job, batch or queue"},
	{exitNoData, "the data directory does not exist or holds no journal"},
	{exitUnknown, "the server's answer was lost: jobs may have been stored or not"},
	{exitFile, "a file or the input cannot be read or written, or the disk is full"},
	{exitClock, "the wall clock shows a time more than a day before the journal's"},
	{exitSignal + int(syscall.SIGINT), "a second SIGINT ended the server at once"},
	{exitSignal + int(syscall.SIGTERM), "a second SIGTERM ended the server at once"},
}

func newExitCodes() *cobra.Command {
	long := "The exit codes of every verb:\n\n"
	for _, e := range exitCodes {
		long += fmt.Sprintf("  %3d  %s\n", e.code, e.meaning)
	}
	// Without Run it is a help topic, not a verb.
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: long}
}

// usageError is a command line that makes no sense.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// errProblems is returned when a check found something; what it found is printed already.
var errProblems = errors.New("the data does not check")

// errNoData is a data directory without a journal.
var errNoData = errors.New("there is no journal in it")

func exitCode(err error) int {
	corrupt, isCorrupt := errors.AsType[*journal.CorruptError](err)
	_, isUsage := errors.AsType[usageError](err)
	refused, isRefused := errors.AsType[*client.Error](err)
	_, isSilent := errors.AsType[*noAnswer](err)
	_, isPath := errors.AsType[*fs.PathError](err)
	_, isInput := errors.AsType[*inputError](err)
	switch {
	case isUsage:
		return exitUsage
	case errors.Is(err, ingest.ErrInUse), errors.Is(err, journal.ErrLocked):
		return exitDataInUse
	case errors.Is(err, errListen):
		return exitListen
	case errors.Is(err, errProblems):
		return exitProblems
	case errors.Is(err, journal.ErrVersion), errors.Is(err, store.ErrNewerFormat), errors.Is(err, store.ErrOlderFormat):
		return exitFormat
	case isCorrupt && corrupt != nil,
		errors.Is(err, journal.ErrForeign), errors.Is(err, journal.ErrCursor), errors.Is(err, store.ErrForeignJournal), errors.Is(err, store.ErrDamaged):
		return exitCorrupt
	case errors.Is(err, errNoData):
		return exitNoData
	case errors.Is(err, journal.ErrClockAhead):
		return exitClock
	case errors.Is(err, client.ErrUnknown):
		return exitUnknown
	case isRefused && refused.Status == http.StatusNotFound && refused.Code != "route_not_found":
		return exitNotFound
	case isRefused, errors.Is(err, client.ErrTooLarge):
		return exitRefused
	case isSilent, errors.Is(err, errNoServer), errors.Is(err, client.ErrUnavailable), errors.Is(err, client.ErrUnexpectedAnswer):
		return exitNoAnswer
	case isPath, isInput, errors.Is(err, ingest.ErrNoBase), errors.Is(err, syscall.ENOSPC), errors.Is(err, ingest.ErrDiskFull):
		return exitFile
	}
	return exitError
}

// hintFor is the next step after an error, where there is one to name.
func hintFor(err error) string {
	switch exitCode(err) {
	case exitUsage:
		return "`daybook help` lists the verbs, `daybook help VERB` the flags of one."
	case exitDataInUse:
		return "Stop the process that uses it (the lock is on the directory itself: there is no file to remove), or name another directory by --data."
	case exitListen:
		if errors.Is(err, syscall.EADDRNOTAVAIL) {
			return "No network interface of this machine has that address; choose another by --listen."
		}
		return "Stop the process that listens there, or choose another address by --listen (port 0: any free port)."
	case exitNoAnswer:
		if errors.Is(err, errNoServer) {
			return "" // its text names the step
		}
		return "Check that `daybook serve` runs, and that --server (or DAYBOOK_SERVER) names its address."
	case exitFormat:
		if errors.Is(err, store.ErrOlderFormat) {
			return "" // its text names the step
		}
		return "Use the version of daybook that wrote the data, or a newer one."
	case exitClock:
		return "If the wall clock is right, --allow-clock-ahead starts all the same; the journal's time then runs at half speed until the clock has caught up."
	}
	return ""
}
