package opsqueue

import (
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func environmentOf(values map[string]string) Environment {
	return ReadEnvironment(func(name string) (string, bool) { value, ok := values[name]; return value, ok })
}

func TestEnvironment(t *testing.T) {
	if e := environmentOf(nil); e.LogLevel != slog.LevelInfo || e.DebugConnections || e.TraceSampleRate != 1 || e.Warnings != nil {
		t.Errorf("without variables: %+v", e)
	}
	e := environmentOf(map[string]string{"OPSQUEUE_DEBUG_CONNECTIONS": "", "OPSQUEUE_OTEL_DEFAULT_TRACE_SAMPLE_RATE": "0.01"})
	if !e.DebugConnections || e.TraceSampleRate != 0.01 || e.Warnings != nil {
		t.Errorf("%+v", e)
	}
	for text, want := range map[string]slog.Level{
		"": slog.LevelInfo, "off": LevelOff, "error": slog.LevelError, "WARN": slog.LevelWarn, "Debug": slog.LevelDebug, "trace": LevelTrace, "2": slog.LevelWarn,
		"warn,opsqueue=debug": slog.LevelDebug, "opsqueue=error,trace": slog.LevelError, "hyper=trace, warn": slog.LevelWarn, "hyper=trace": slog.LevelInfo, "opsqueue": LevelTrace,
	} {
		if e := environmentOf(map[string]string{"RUST_LOG": text}); e.LogLevel != want || e.Warnings != nil {
			t.Errorf("RUST_LOG=%s: %v, %v; want %v", text, e.LogLevel, e.Warnings, want)
		}
	}
	for name, values := range map[string][]string{
		"RUST_LOG": {"loud", "opsqueue=loud", "opsqueue[span]=debug=1"},
		"OPSQUEUE_OTEL_DEFAULT_TRACE_SAMPLE_RATE": {"", "-0.1", "1.1", "NaN", "Inf", "1%"},
		"SENTRY_DSN": {"https://k@example.com/1"}, "SENTRY_ENVIRONMENT": {"x"}, "SENTRY_RELEASE": {"x"},
	} {
		for _, value := range values {
			e := environmentOf(map[string]string{name: value})
			if len(e.Warnings) != 1 || !strings.Contains(e.Warnings[0], name) || e.LogLevel != slog.LevelInfo || e.TraceSampleRate != 1 {
				t.Errorf("%s=%q: %+v", name, value, e)
			}
		}
	}
}

// TestEnvironmentIsDocumented: docs/how-to/from-opsqueue.md names the variables that the code reads.
func TestEnvironmentIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/how-to/from-opsqueue.md")
	if err != nil {
		t.Fatal(err)
	}
	var read []string
	ReadEnvironment(func(name string) (string, bool) { read = append(read, name); return "", false })
	if len(read) != 6 {
		t.Errorf("it reads %v", read)
	}
	for _, name := range read {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/how-to/from-opsqueue.md does not name %s", name)
		}
	}
}

func TestConnectionNames(t *testing.T) {
	uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	now := time.UnixMilli(0x0198f0a01234)
	var plain, coloured ConnectionNames
	coloured.Colours = true
	var names []string
	for range 100 {
		names = append(names, plain.Next(now))
		if name := names[len(names)-1]; !uuid.MatchString(name) || !strings.HasPrefix(name, "0198f0a0-1234-7") {
			t.Fatalf("%s is not a UUID of version 7 of that time", name)
		}
	}
	for i := range 30 {
		name := coloured.Next(now)
		names = append(names, name)
		if uuid.MatchString(name) != (i >= 24) {
			t.Errorf("connection %d is %s", i, name)
		}
	}
	slices.Sort(names)
	if distinct := slices.Compact(slices.Clone(names)); len(distinct) != len(names) {
		t.Errorf("%d names of %d are there twice", len(names)-len(distinct), len(names))
	}
}
