package trace

import (
	"context"
	"encoding/hex"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	api "go.opentelemetry.io/otel/trace"

	"github.com/daybookq/daybook/job"
)

// Attributes of spans that the semantic conventions for messaging lack.
const (
	keyClient   = "daybook.client"
	keyRunner   = "daybook.runner"
	keyClaim    = "daybook.claim_id"
	keyAttempt  = "daybook.attempt"
	keyOutcome  = "daybook.outcome"
	keyStatus   = "daybook.status"
	keyExitCode = "daybook.exit_code"
)

// operation is the value of messaging.operation.name, and the prefix of span names.
const operation = "process"

// hasSpan reports whether a run becomes a span. A job that was returned, or that the server could not hand out, has not
// run.
func hasSpan(e *job.RunEnd) bool {
	return e.Outcome != job.Unget.String() && e.Outcome != job.Damaged.String()
}

// failures are the outcomes of failed runs. A run that a request ended has not failed.
var failures = map[string]bool{
	job.Fail.String(): true, job.Retry.String(): true, job.Error.String(): true, job.RunAbandoned: true, job.RunLost: true,
}

// spans starts and ends a span for each run, until stop returns true. It returns the number of runs that it handled,
// including those that the sampler refused.
func spans(tracer api.Tracer, e *job.RunEnd, stop func() bool) (n int) {
	common := []attribute.KeyValue{
		semconv.MessagingSystemKey.String("daybook"), semconv.MessagingOperationTypeProcess, semconv.MessagingOperationName(operation),
		semconv.MessagingDestinationName(e.Type), attribute.String(keyClient, e.Client), attribute.String(keyClaim, e.Claim.String()),
		attribute.Int(keyAttempt, e.Attempt), attribute.String(keyOutcome, e.Outcome),
	}
	if e.Status != job.Purged {
		common = append(common, attribute.String(keyStatus, e.Status.String()))
	}
	if e.Runner != "" {
		common = append(common, semconv.MessagingClientID(e.Runner), attribute.String(keyRunner, e.Runner))
	}
	if e.ExitCode != 0 {
		common = append(common, attribute.Int(keyExitCode, e.ExitCode))
	}
	if failures[e.Outcome] {
		common = append(common, semconv.ErrorTypeKey.String(e.Outcome))
	}
	options := []api.SpanStartOption{api.WithNewRoot(), api.WithSpanKind(api.SpanKindConsumer), api.WithTimestamp(time.UnixMilli(e.StartedAt)), api.WithAttributes(common...)}
	if producer, ok := producerOf(e.Traceparent); ok {
		options = append(options, api.WithLinks(api.Link{SpanContext: producer}))
	}
	name, end := operation+" "+e.Type, api.WithTimestamp(time.UnixMilli(e.EndedAt))
	for ; n < e.Jobs && !stop(); n++ {
		_, span := tracer.Start(context.Background(), name, options...)
		if span.IsRecording() {
			span.SetAttributes(semconv.MessagingMessageID(e.First.WithLine(e.First.Line() + n).String()))
			if failures[e.Outcome] {
				span.SetStatus(codes.Error, e.Error)
			}
		}
		span.End(end)
	}
	return n
}

// producerOf returns the context in a traceparent. ok is false if the traceparent is empty.
func producerOf(traceparent string) (producer api.SpanContext, ok bool) {
	if job.CheckTraceparent(traceparent) != nil {
		return producer, false
	}
	var config api.SpanContextConfig
	var flags [1]byte
	hex.Decode(config.TraceID[:], []byte(traceparent[3:35]))
	hex.Decode(config.SpanID[:], []byte(traceparent[36:52]))
	hex.Decode(flags[:], []byte(traceparent[53:55]))
	config.TraceFlags, config.Remote = api.TraceFlags(flags[0]), true
	return api.NewSpanContext(config), true
}
