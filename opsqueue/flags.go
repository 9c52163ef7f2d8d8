package opsqueue

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Version is the version of Opsqueue whose protocol and flags these are. Clients compare "v" + Version with their own.
const Version = "0.40.1"

// ExitUsage is the exit code after a UsageError.
const ExitUsage = 2

// Flags are the original's flags.
type Flags struct {
	Port                   uint16 // 0: any free port
	ReportBoundPortPipe    int    // a file descriptor; negative: none
	DatabaseFilename       string
	ReservationExpiration  time.Duration
	MaxReadPoolSize        uint32 // has no meaning in Daybook
	HeartbeatInterval      time.Duration
	MaxMissableHeartbeats  uint64
	MaxChunkRetries        uint32 // a chunk runs at most as often, and at least once
	MaxSubmissionAge       time.Duration
	MaxSubmissionsReturned int64
}

// flagTable has a row for each flag. The original's defaults are texts too.
var flagTable = []struct {
	name, short string
	otherwise   string // the default
	set         func(f *Flags, text string) error
}{
	{"port", "p", "3999", func(f *Flags, text string) error { return setUnsigned(&f.Port, text, 0, 1<<16-1) }},
	{"report-bound-port-pipe", "", "-1", func(f *Flags, text string) error { return setDescriptor(&f.ReportBoundPortPipe, text) }},
	{"database-filename", "", "opsqueue.db", func(f *Flags, text string) error { f.DatabaseFilename = text; return nil }},
	{"reservation-expiration", "", "10 minutes", func(f *Flags, text string) error { return setDuration(&f.ReservationExpiration, text) }},
	{"max-read-pool-size", "", "256", func(f *Flags, text string) error { return setUnsigned(&f.MaxReadPoolSize, text, 1, 1<<32-1) }},
	{"heartbeat-interval", "", "10 seconds", func(f *Flags, text string) error { return setPositive(&f.HeartbeatInterval, text) }},
	{"max-missable-heartbeats", "", "3", func(f *Flags, text string) error { return setUnsigned(&f.MaxMissableHeartbeats, text, 0, 1<<64-1) }},
	{"max-chunk-retries", "", "10", func(f *Flags, text string) error { return setUnsigned(&f.MaxChunkRetries, text, 0, 1<<32-1) }},
	{"max-submission-age", "", "1 hour", func(f *Flags, text string) error { return setDuration(&f.MaxSubmissionAge, text) }},
	{"max-submissions-returned", "", "100000", func(f *Flags, text string) error { return setUnsigned(&f.MaxSubmissionsReturned, text, 1, 1<<63-2) }},
}

// UsageError is a command line that is refused. The program prints "error: " and its text to stderr, and exits with
// ExitUsage. The texts are those of clap 4, which the original uses.
type UsageError struct{ text string }

func (e *UsageError) Error() string { return e.text }

// ErrVersion says that the command line requests the version. The program prints "opsqueue " + Version to stdout and exits
// with 0.
var ErrVersion = errors.New("the version is requested")

// ParseFlags reads a command line without the name of the program. Its errors are *UsageError and ErrVersion. As in the
// original, there is no --help, names cannot be abbreviated, and each flag may be given once. A value follows as
// `--port 1`, `--port=1`, `-p 1`, `-p1` or `-p=1`. A value that begins with a minus needs an equals sign.
func ParseFlags(args []string) (Flags, error) {
	var f Flags
	for _, row := range flagTable {
		if err := row.set(&f, row.otherwise); err != nil {
			panic(fmt.Sprintf("opsqueue: default of --%s: %v", row.name, err))
		}
	}
	given := map[string]bool{}
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			if len(args) > 0 {
				return f, &UsageError{fmt.Sprintf("unexpected argument '%s' found", args[0])}
			}
			break
		}
		name, value, attached := splitFlag(arg)
		if name == "version" {
			if attached && strings.HasPrefix(arg, "--") {
				return f, &UsageError{fmt.Sprintf("unexpected value '%s' for '--version' found; no more were expected", value)}
			}
			return f, ErrVersion
		}
		row := flagRow(name)
		if row < 0 {
			return f, unexpected(arg)
		}
		shown := fmt.Sprintf("--%s <%s>", name, strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
		if !attached {
			if len(args) == 0 || args[0] == "--" || isFlag(args[0]) {
				return f, &UsageError{fmt.Sprintf("a value is required for '%s' but none was supplied", shown)}
			}
			if len(args[0]) > 1 && args[0][0] == '-' {
				return f, unexpected(args[0])
			}
			value = args[0]
			args = args[1:]
		}
		if given[name] {
			return f, &UsageError{fmt.Sprintf("the argument '%s' cannot be used multiple times", shown)}
		}
		given[name] = true
		if err := flagTable[row].set(&f, value); err != nil {
			return f, &UsageError{fmt.Sprintf("invalid value '%s' for '%s': %v", value, shown, err)}
		}
	}
	return f, nil
}

// flagRow returns the index of a flag in flagTable, or -1.
func flagRow(name string) int {
	for i := range flagTable {
		if flagTable[i].name == name {
			return i
		}
	}
	return -1
}

// isFlag reports whether an argument is one of the flags.
func isFlag(arg string) bool {
	name, _, _ := splitFlag(arg)
	return name == "version" || flagRow(name) >= 0
}

// splitFlag returns the long name of a flag, or "" if there is none, and a value that is attached to it.
func splitFlag(arg string) (name, value string, attached bool) {
	if long, ok := strings.CutPrefix(arg, "--"); ok {
		return strings.Cut(long, "=")
	}
	if len(arg) < 2 || arg[0] != '-' {
		return "", "", false
	}
	short := arg[1:2]
	if short == "V" {
		return "version", arg[2:], len(arg) > 2
	}
	for _, row := range flagTable {
		if row.short == short {
			return row.name, strings.TrimPrefix(arg[2:], "="), len(arg) > 2
		}
	}
	return "", "", false
}

// unexpected refuses an argument. The text has only the name: no value, and of short flags only the first.
func unexpected(arg string) error {
	shown := arg
	if strings.HasPrefix(arg, "--") {
		shown, _, _ = strings.Cut(arg, "=")
	} else if len(arg) > 2 && arg[0] == '-' {
		_, size := utf8.DecodeRuneInString(arg[1:])
		shown = arg[:1+size]
	}
	return &UsageError{fmt.Sprintf("unexpected argument '%s' found", shown)}
}
