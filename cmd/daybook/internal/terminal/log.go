package terminal

import (
	"io"
	"time"

	"github.com/rs/zerolog"
)

// ParseLevel returns the level of --log-level.
func ParseLevel(level string) (zerolog.Level, error) {
	parsed, err := zerolog.ParseLevel(level)
	if err != nil || level == "" {
		return parsed, Usagef("--log-level %q is not one of trace, debug, info, warn, error", level)
	}
	return parsed, nil
}

// NewLogger returns the log of --log-level and --log-format.
func NewLogger(level, format string, w io.Writer) (zerolog.Logger, error) {
	parsed, err := ParseLevel(level)
	if err != nil {
		return zerolog.Logger{}, err
	}
	isConsole, err := ForPeople(format, w)
	if err != nil {
		return zerolog.Logger{}, err
	}
	if isConsole {
		w = ConsoleLog(w, HasColours(w))
	}
	return zerolog.New(w).Level(parsed).With().Timestamp().Logger(), nil
}

// The values of --log-format.
const (
	LogAuto       = "auto"
	logConsole    = "console"
	logJSON       = "json"
	LogFormatHelp = "format of the log: json, console for people, or auto, which is console on a terminal and json otherwise"
)

// ForPeople reports whether a log that is written to w is for people.
func ForPeople(format string, w io.Writer) (bool, error) {
	switch format {
	case LogAuto:
		return IsTerminal(w), nil
	case logConsole, logJSON:
		return format == logConsole, nil
	}
	return false, Usagef("--log-format %q is not one of %s, %s, %s", format, LogAuto, logConsole, logJSON)
}

// ConsoleLog turns a log in JSON into lines for people. It quotes a text that could change a terminal.
func ConsoleLog(w io.Writer, colours bool) io.Writer {
	return zerolog.ConsoleWriter{
		Out: w, TimeFormat: time.DateTime, NoColor: !colours,
		FormatPrepare: func(fields map[string]any) error {
			if text, ok := fields[zerolog.MessageFieldName].(string); ok {
				fields[zerolog.MessageFieldName] = PlainCell(text)
			}
			return nil
		},
	}
}
