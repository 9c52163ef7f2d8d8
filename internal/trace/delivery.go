package trace

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// Counts are the spans since the start.
type Counts struct {
	Exported uint64 // the collector has accepted them
	Dropped  uint64 // there was no room for them
	Failed   uint64 // the collector has not accepted them, or could not be reached
}

// delivery passes batches of spans to an exporter of the SDK. It counts them, logs errors, and can be ended.
type delivery struct {
	sdk.SpanExporter
	log              *errorLog
	ended            context.Context // when it is done, no batch is sent any more
	exported, failed atomic.Uint64
}

// ExportSpans exports a batch. It returns no error, because it has logged and counted it.
func (d *delivery) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(d.ended, func() { cancel(context.Cause(d.ended)) })()
	err := context.Cause(d.ended)
	if err == nil {
		err = d.SpanExporter.ExportSpans(ctx, spans)
	}
	if err != nil {
		d.failed.Add(uint64(len(spans)))
		d.log.warn("the collector of traces did not accept spans", err)
		return nil
	}
	d.exported.Add(uint64(len(spans)))
	return nil
}

// errorsEvery is the least time between two log entries about errors of the export.
const errorsEvery = time.Minute

// errorLog logs errors, at most one in errorsEvery.
type errorLog struct {
	logger *slog.Logger

	mu     sync.Mutex // guards the fields below
	last   time.Time
	hidden int // errors since the last entry
}

func (l *errorLog) warn(text string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.last.IsZero() && time.Since(l.last) < errorsEvery {
		l.hidden++
		return
	}
	l.logger.Warn(text, "error", err, "not_shown", l.hidden)
	l.last, l.hidden = time.Now(), 0
}
