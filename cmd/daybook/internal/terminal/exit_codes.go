package terminal

import (
	"errors"
	"fmt"
	"strconv"
	"syscall"
)

// The exit codes are part of the interface: scripts and service managers depend on them.
const (
	ExitOK = iota
	ExitError
	ExitUsage
	ExitDataInUse
	ExitListen
	ExitCorrupt
	ExitProblems
	ExitFormat
	ExitNoAnswer
	ExitRefused
	ExitNotFound
	ExitNoData
	ExitUnknown
	ExitFile
	ExitClock
	ExitJobFailed
	ExitJobCancelled
	ExitTimeout
	ExitSystem
	ExitUndecodable

	// A process that a signal ended has the code ExitSignal plus the number of the signal, as shells report it.
	ExitSignal = 128
)

// ExitCodes are the meanings of the codes. `daybook help exit-codes` shows them.
var ExitCodes = []struct {
	Code    int
	Meaning string
}{
	{ExitOK, "success"},
	{ExitError, "a failure without a code of its own; the message says why"},
	{ExitUsage, "the command line, an environment variable or the configuration file is wrong"},
	{ExitDataInUse, "another process uses the data directory, the directory of the backups, or the file of add --resume"},
	{ExitListen, "the server cannot listen on the address: another process listens there, or this machine does not have the address"},
	{ExitCorrupt, "the data or the backup is damaged, or the journal and the store do not belong together; nothing was changed"},
	{ExitProblems, "daybook check found problems"},
	{ExitFormat, "this version of daybook cannot read the format of the data: the format is newer, or from before the first release"},
	{ExitNoAnswer, "the server did not answer, or the answer was not that of a Daybook server; nothing was stored"},
	{ExitRefused, "the server refused the request; the message says why"},
	{ExitNotFound, "the server has no such job, batch, queue, blob, fileset or handler"},
	{ExitNoData, "the data directory does not exist or has no journal or log, or there is no backup"},
	{ExitUnknown, "the server's answer was lost: jobs may or may not have been stored"},
	{ExitFile, "a file or the input cannot be read or written, or the disk is full"},
	{ExitClock, "the wall clock is more than a day earlier than the last time in the journal"},
	{ExitJobFailed, "the job, batch or queue that the command waited for has failed"},
	{ExitJobCancelled, "the job or batch that the command waited for was cancelled"},
	{ExitTimeout, "what the command waited for did not end within --timeout or --wait-timeout"},
	{ExitSystem, "the command does not run on this operating system"},
	{ExitUndecodable, "a payload, an output or an error cannot be decrypted: the key is missing, or it has been changed or is not encrypted"},
	{ExitSignal + int(syscall.SIGINT), "SIGINT (Ctrl-C) or another signal ended a command that had begun, or a second SIGINT ended the server at once"},
	{ExitSignal + int(syscall.SIGHUP), "a second signal, SIGHUP, ended the server or the runner at once"},
	{ExitSignal + int(syscall.SIGTERM), "a second SIGTERM ended the server at once"},
}

// UsageError is an error of the command line, the environment or the configuration file.
type UsageError struct{ error }

func (e UsageError) Unwrap() error { return e.error }

// Usage makes an error one of the command line.
func Usage(err error) error { return UsageError{err} }

// Usagef returns an error of the command line with a text in the form of fmt.Errorf.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// SilentExit is the exit code of an error that is printed already.
type SilentExit int

func (e SilentExit) Error() string { return "exit code " + strconv.Itoa(int(e)) }

// ErrInterrupted means that SIGINT, or another signal of UntilInterrupted, ended a command that had begun.
var ErrInterrupted = errors.New("interrupted")
