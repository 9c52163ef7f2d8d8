package opsqueue

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
)

// Environment is what the original's environment variables set. The variables OTEL_* are those of OpenTelemetry, whose
// library reads them.
type Environment struct {
	// LogLevel is that of RUST_LOG. A level of trace is LevelTrace.
	LogLevel slog.Level
	// DebugConnections is true if OPSQUEUE_DEBUG_CONNECTIONS has any value: the first connections have names of colours.
	DebugConnections bool
	// TraceSampleRate is OPSQUEUE_OTEL_DEFAULT_TRACE_SAMPLE_RATE: the share of traces that are recorded, from 0 to 1.
	TraceSampleRate float64
	// Warnings are sentences about values that are ignored.
	Warnings []string
}

// The levels of RUST_LOG that slog does not have.
const (
	LevelTrace = slog.LevelDebug - 4
	LevelOff   = slog.LevelError + 4
)

// logLevels are the levels of RUST_LOG, each by its name and by its number.
var logLevels = map[string]slog.Level{
	"off": LevelOff, "0": LevelOff, "error": slog.LevelError, "1": slog.LevelError, "warn": slog.LevelWarn, "2": slog.LevelWarn,
	"info": slog.LevelInfo, "3": slog.LevelInfo, "debug": slog.LevelDebug, "4": slog.LevelDebug, "trace": LevelTrace, "5": LevelTrace,
}

// ReadEnvironment reads the variables. lookup is os.LookupEnv. A value that cannot be used is ignored, with a warning, so
// that a server that started with the original starts with this one.
func ReadEnvironment(lookup func(name string) (string, bool)) Environment {
	e := Environment{LogLevel: slog.LevelInfo, TraceSampleRate: 1}
	if text, ok := lookup("RUST_LOG"); ok {
		e.readLog(text)
	}
	_, e.DebugConnections = lookup("OPSQUEUE_DEBUG_CONNECTIONS")
	const rate = "OPSQUEUE_OTEL_DEFAULT_TRACE_SAMPLE_RATE"
	if text, ok := lookup(rate); ok {
		if n, err := strconv.ParseFloat(text, 64); err == nil && n >= 0 && n <= 1 {
			e.TraceSampleRate = n
		} else {
			e.warn("%s=%q is ignored: it must be a number from 0 to 1", rate, text)
		}
	}
	for _, name := range []string{"SENTRY_DSN", "SENTRY_ENVIRONMENT", "SENTRY_RELEASE"} {
		if _, ok := lookup(name); ok {
			e.warn("%s is ignored: this server does not report to Sentry", name)
		}
	}
	return e
}

func (e *Environment) warn(format string, args ...any) {
	e.Warnings = append(e.Warnings, fmt.Sprintf(format, args...))
}

// readLog reads directives such as `info`, `opsqueue=debug` or `warn,hyper=error`. A directive for opsqueue takes precedence
// over one for all targets. Directives for other targets have no effect, since there are none.
func (e *Environment) readLog(text string) {
	all, own := "", ""
	for directive := range strings.SplitSeq(text, ",") {
		directive = strings.TrimSpace(directive)
		target, level, has := strings.Cut(directive, "=")
		if !has {
			target, level = "", directive
			if directive == "opsqueue" {
				target, level = directive, "trace"
			}
		}
		level = strings.ToLower(level)
		_, known := logLevels[level]
		switch {
		case directive == "":
		case !known:
			e.warn("RUST_LOG: directive %q is ignored: its level must be off, error, warn, info, debug or trace", directive)
		case target == "":
			all = level
		case target == "opsqueue":
			own = level
		}
	}
	if own == "" {
		own = all
	}
	if own != "" {
		e.LogLevel = logLevels[own]
	}
}
