package trace

import (
	"log/slog"
	"strings"

	"github.com/go-logr/logr"
)

// sdkLog writes the SDK's messages to our log. It leaves out their values and most of their errors, because these can
// contain parts of OTEL_EXPORTER_OTLP_HEADERS, which has secrets.
type sdkLog struct{ logger *slog.Logger }

// warnings is the level of the SDK's warnings. Messages with a higher level are not for operators.
const warnings = 1

// Init does nothing.
func (sdkLog) Init(logr.RuntimeInfo) {}

// Enabled reports whether messages of a level are logged.
func (sdkLog) Enabled(level int) bool { return level <= warnings }

// Info logs the text of a warning.
func (l sdkLog) Info(_ int, text string, _ ...any) { l.logger.Warn("OpenTelemetry: " + text) }

// Error logs the text of an error. It adds the cause if the error is about a file with a certificate or key.
func (l sdkLog) Error(err error, text string, _ ...any) {
	if strings.Contains(text, "tls") {
		l.logger.Error("OpenTelemetry: "+text, "error", err)
		return
	}
	l.logger.Error("OpenTelemetry: " + text + ": a variable OTEL_* has a value that cannot be used")
}

// WithValues returns the same log.
func (l sdkLog) WithValues(...any) logr.LogSink { return l }

// WithName returns the same log.
func (l sdkLog) WithName(string) logr.LogSink { return l }
