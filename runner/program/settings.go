package program

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/answers"
	"github.com/daybookq/daybook/runner/runlog"
	"github.com/daybookq/daybook/runner/sandbox"
)

// Settings are a handler's settings in the runner's configuration.
type Settings struct {
	// Argv is the program and its arguments. Shell is a command for sh -c instead.
	Argv  []string `toml:"argv"`
	Shell string   `toml:"shell"`
	// Grants extend the default environment and the default sandbox.Access.
	sandbox.Grants
	// Dir is the working directory, which the program may read. "" means the runner's.
	Dir string `toml:"dir"`

	// Frames is "" for one process per job, or "lines" for one process per batch.
	Frames string `toml:"frames"`
	// ExitCodes maps exit statuses to outcomes: ok, failed, retry or error.
	ExitCodes map[string]string `toml:"exit_codes"`
	// ChainTypes are the types that lines J: type|payload may create. They are set from the handler's document.
	ChainTypes answers.ChainTypes `toml:"-"`

	// LogBytes is how many bytes of stderr are kept as the job's log. 0 means that no log is kept. It requires one
	// process per job, and KeepLogs.
	LogBytes int64 `toml:"log_bytes"`

	// Limits of resources. 0 means no limit.
	OpenFiles int   `toml:"open_files"`
	Processes int   `toml:"processes"`
	FileBytes int64 `toml:"file_bytes"`
}

// FramesLines is the value of Settings.Frames for one process per batch.
const FramesLines = "lines"

// MaxLogBytes bounds Settings.LogBytes. Each run may take this much of the disk that holds temporary files.
const MaxLogBytes = 1 << 30

// The outcomes of exit statuses.
const (
	ok      = "ok"
	failed  = "failed"
	retry   = "retry"
	errored = "error"
)

// exTempfail is the exit status for a temporary failure in sysexits.h.
const exTempfail = 75

func wrong(field, format string, args ...any) error {
	return &handler.FieldError{Field: field, Text: field + " " + fmt.Sprintf(format, args...)}
}

// New returns a handler's executor. Its error is a *handler.FieldError, which names the wrong field.
func New(s *sandbox.Sandbox, set Settings, options handler.Options) (*Executor, error) {
	document := handler.Document{Kind: handler.Exec, Program: "program", Options: &options}
	if err := document.Check(); err != nil {
		return nil, err
	}
	e := &Executor{
		sandbox: s, argv: slices.Clone(set.Argv), dir: set.Dir, lines: set.Frames == FramesLines, chain: set.ChainTypes, options: options,
		access: sandbox.Access{ReadOnly: slices.Clone(set.ReadOnly), ReadWrite: slices.Clone(set.ReadWrite), Network: set.Network},
		limits: sandbox.Limits{MemoryBytes: options.MemoryBytes, OpenFiles: set.OpenFiles, Processes: set.Processes, FileBytes: set.FileBytes},
	}
	e.inlineBytes, e.outputBytes = options.Outputs()
	switch {
	case set.Shell != "" && len(set.Argv) > 0:
		return nil, wrong("shell", "must not be given together with argv")
	case set.Shell != "":
		e.argv = []string{"sh", "-c", set.Shell}
	case len(set.Argv) == 0 || set.Argv[0] == "":
		return nil, wrong("argv", "is missing: it must be a program and its arguments, or shell must be given")
	}
	for _, arg := range e.argv {
		if strings.ContainsRune(arg, 0) {
			return nil, wrong("argv", "must not have NUL bytes")
		}
	}
	if set.Frames != "" && set.Frames != FramesLines {
		return nil, wrong("frames", "must be %q or missing, not %q", FramesLines, set.Frames)
	}
	if e.dir != "" {
		if !filepath.IsAbs(e.dir) {
			return nil, wrong("dir", "must be an absolute path, not %q", e.dir)
		}
		if info, err := os.Stat(e.dir); err != nil {
			return nil, wrong("dir", "is not there: %v", err)
		} else if !info.IsDir() {
			return nil, wrong("dir", "must be a directory: %s", e.dir)
		}
	}
	if key, problem := set.Grants.Check(); key != "" {
		return nil, wrong(key, "%s", problem)
	}
	switch {
	case set.LogBytes != 0 && (set.LogBytes < runlog.MinBytes || set.LogBytes > MaxLogBytes):
		return nil, wrong("log_bytes", "must be 0 or between %d and %d, not %d", runlog.MinBytes, int64(MaxLogBytes), set.LogBytes)
	case set.LogBytes != 0 && e.lines:
		return nil, wrong("log_bytes", "must be 0 with frames = %q: the log would be that of all jobs of a process", FramesLines)
	}
	e.logBytes = set.LogBytes
	for _, limit := range []struct {
		field string
		value int64
	}{{"open_files", int64(set.OpenFiles)}, {"processes", int64(set.Processes)}, {"file_bytes", set.FileBytes}} {
		if limit.value < 0 {
			return nil, wrong(limit.field, "must not be negative: %d", limit.value)
		}
	}
	var err error
	if e.codes, err = ExitCodes(set.ExitCodes); err != nil {
		return nil, err
	}
	e.env = environment(&set.Grants)
	if _, err := sandbox.Lookup(&sandbox.Command{Argv: e.argv, Env: e.env, Dir: e.dir}); err != nil {
		return nil, wrong("argv", "names a program that cannot be run: %v", err)
	}
	for _, name := range interpreters(&set) {
		if problem := e.unreadable(name); problem != "" {
			return nil, wrong(field(&set), "%s", problem)
		}
	}
	return e, nil
}

// ExitCodes parses a map of exit statuses to outcomes. Its error is a *handler.FieldError.
func ExitCodes(set map[string]string) (map[int]string, error) {
	codes := map[int]string{0: ok, exTempfail: retry}
	for _, text := range slices.Sorted(maps.Keys(set)) {
		status, err := strconv.Atoi(text)
		if err != nil || status < 0 || status > 255 {
			return nil, wrong("exit_codes", "must have exit statuses of 0 to 255, not %q", text)
		}
		outcome := set[text]
		if !slices.Contains([]string{ok, failed, retry, errored}, outcome) {
			return nil, wrong("exit_codes", "must map %s to ok, failed, retry or error, not %q", text, outcome)
		}
		codes[status] = outcome
	}
	return codes, nil
}
