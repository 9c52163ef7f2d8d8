package main

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/spf13/cobra"

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
	exitPortInUse
	exitCorrupt
	exitProblems
)

// exitCodes says what each code means; `daybook help exit-codes` shows it.
var exitCodes = []struct {
	code    int
	meaning string
}{
	{exitOK, "all went well"},
	{exitError, "it failed; the message says why"},
	{exitUsage, "the command line is wrong"},
	{exitDataInUse, "another process has the data directory"},
	{exitPortInUse, "another process listens on the address"},
	{exitCorrupt, "the data is damaged or does not belong together; nothing was changed"},
	{exitProblems, "check found what must not be"},
}

func newExitCodes() *cobra.Command {
	long := "The exit codes of every verb:\n\n"
	for _, e := range exitCodes {
		long += fmt.Sprintf("  %d  %s\n", e.code, e.meaning)
	}
	// Without Run it is a help topic, not a verb.
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: long}
}

// usageError is a command line that makes no sense.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// errProblems is returned when a check found something; what it found is printed already.
var errProblems = errors.New("the data does not check")

func exitCode(err error) int {
	corrupt, isCorrupt := errors.AsType[*journal.CorruptError](err)
	_, isUsage := errors.AsType[usageError](err)
	switch {
	case isUsage:
		return exitUsage
	case errors.Is(err, ingest.ErrInUse), errors.Is(err, journal.ErrLocked):
		return exitDataInUse
	case errors.Is(err, syscall.EADDRINUSE):
		return exitPortInUse
	case errors.Is(err, errProblems):
		return exitProblems
	case isCorrupt && corrupt != nil,
		errors.Is(err, journal.ErrForeign), errors.Is(err, journal.ErrCursor), errors.Is(err, store.ErrForeignJournal), errors.Is(err, store.ErrDamaged),
		errors.Is(err, journal.ErrVersion), errors.Is(err, store.ErrNewerFormat):
		return exitCorrupt
	}
	return exitError
}

// hintFor is the next step after an error, where there is one to name.
func hintFor(err error) string {
	switch exitCode(err) {
	case exitUsage:
		return "daybook help tells the verbs, daybook help VERB its flags."
	case exitDataInUse:
		return "Stop the process that uses it (the file `lock` in it is not the lock, only its place), or name another directory by --data."
	case exitPortInUse:
		return "Stop the process that listens there, or choose another address by --listen (port 0: any that is free)."
	}
	if errors.Is(err, journal.ErrClockAhead) {
		return "If the wall clock is right, --allow-clock-ahead starts all the same; the journal's time then goes at half speed until the clock has caught up."
	}
	return ""
}
