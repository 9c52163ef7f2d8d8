package trace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	api "go.opentelemetry.io/otel/trace"

	"github.com/daybookq/daybook/job"
)

// Options are the options of an exporter. Settings and Logger are required.
type Options struct {
	Settings
	Version string // of the program
	Logger  *slog.Logger
	// Flush bounds how long Run exports the remaining spans at its end. 0: defaultFlush.
	Flush time.Duration
	// maxQueued replaces maxQueuedRuns in tests. 0: maxQueuedRuns.
	maxQueued int
}

// defaultFlush is shorter than the time that service managers wait before they kill a process.
const defaultFlush = 5 * time.Second

// Exporter exports spans of runs. One goroutine calls Run; any goroutine may call the other methods.
type Exporter struct {
	o        Options
	queue    *queue
	delivery *delivery
	provider *sdk.TracerProvider
	tracer   api.Tracer
	giveUp   context.CancelCauseFunc // ends all exports
	dropped  atomic.Uint64
}

// errGivenUp is the error of batches that could not be exported in time at the end.
var errGivenUp = errors.New("the time for the last export has passed")

// New returns an exporter, without connecting to the collector. It sets the SDK's logger, which is global to the process.
func New(o Options) (*Exporter, error) {
	o.Flush = cmp.Or(o.Flush, defaultFlush)
	errors := &errorLog{logger: o.Logger}
	otel.SetLogger(logr.New(sdkLog{o.Logger}))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { errors.warn("OpenTelemetry reports an error", err) }))
	ended, giveUp := context.WithCancelCause(context.Background())
	client, err := otlptracehttp.New(ended, otlptracehttp.WithEndpointURL(o.Endpoint))
	if err != nil {
		giveUp(nil)
		return nil, fmt.Errorf("make exporter of traces: %w", err)
	}
	e := &Exporter{
		o: o, queue: newQueue(cmp.Or(o.maxQueued, maxQueuedRuns)), giveUp: giveUp,
		delivery: &delivery{SpanExporter: client, log: errors, ended: ended},
	}
	// The processor blocks while its queue is full. That blocks only Run, so our own queue is the bound, and counts the
	// spans that it drops.
	e.provider = sdk.NewTracerProvider(sdk.WithResource(e.resource()), sdk.WithSampler(o.sampler), sdk.WithBatcher(e.delivery, sdk.WithBlocking()))
	e.tracer = e.provider.Tracer("github.com/daybookq/daybook", api.WithInstrumentationVersion(o.Version), api.WithSchemaURL(semconv.SchemaURL))
	return e, nil
}

// resource describes this process: its name, which OTEL_SERVICE_NAME can replace, its version, its host, and
// OTEL_RESOURCE_ATTRIBUTES.
func (e *Exporter) resource() *resource.Resource {
	r, err := resource.New(context.Background(), resource.WithSchemaURL(semconv.SchemaURL), resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithAttributes(semconv.ServiceName("daybook"), semconv.ServiceVersion(e.o.Version)), resource.WithFromEnv())
	if err != nil { // use what was found
		e.o.Logger.Warn("the description of this process in traces is incomplete", "error", err)
	}
	return r
}

// Ended adds the ends of runs to the queue, without blocking. If the queue lacks room, runs are dropped and counted.
// Ended keeps no reference to the list.
func (e *Exporter) Ended(ends []job.RunEnd) {
	if dropped := e.queue.put(ends, e.refuses); dropped > 0 {
		e.dropped.Add(uint64(dropped))
	}
}

func (e *Exporter) refuses(end *job.RunEnd) bool { return !hasSpan(end) || e.o.never(end) }

// Counts returns the numbers of spans until now.
func (e *Exporter) Counts() Counts {
	return Counts{Exported: e.delivery.exported.Load(), Dropped: e.dropped.Load(), Failed: e.delivery.failed.Load()}
}

// Run exports spans until ctx is done. Then it exports the remaining spans, for at most Options.Flush. Those still left
// count as failed or dropped.
func (e *Exporter) Run(ctx context.Context) {
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(e.o.Flush, func() { e.giveUp(errGivenUp) })
	})()
	for {
		last := ctx.Err() != nil
		for _, end := range e.queue.take(ctx) {
			made := spans(e.tracer, &end, e.givenUp)
			e.dropped.Add(uint64(end.Jobs - made))
			e.queue.done(end.Jobs)
		}
		if last {
			break
		}
	}
	if err := e.provider.Shutdown(context.Background()); err != nil { // does not take long: giveUp ends its exports
		e.o.Logger.Warn("cannot end the export of traces", "error", err)
	}
	e.giveUp(nil)
}

func (e *Exporter) givenUp() bool { return e.delivery.ended.Err() != nil }
