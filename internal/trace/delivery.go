package trace

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// Counts are numbers of spans since the start.
type Counts struct {
	Exported uint64 // accepted by the collector
	Dropped  uint64 // dropped for lack of room
	Failed   uint64 // not accepted by the collector, or not delivered
}

// delivery passes batches of spans to an exporter of the SDK. It counts the spans, logs errors, and can be stopped.
type delivery struct {
	sdk.SpanExporter
	log              *errorLog
	ended            context.Context // when it is done, no more batches are sent
	exported, failed atomic.Uint64
}

// ExportSpans exports a batch. It always returns nil, because it has logged and counted the error.
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

// errorsEvery is the minimum interval between two log entries about export errors.
const errorsEvery = time.Minute

// errorLog logs at most one error in errorsEvery.
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
