// Package trace converts the ends of runs to OpenTelemetry spans, and exports them by OTLP with the official SDK.
//
//	store ──► Exporter.Ended (never waits) ──► queue (bounded) ──► Exporter.Run: a span per run ──► SDK: batches, HTTP
//
// Each run of a job is a span in its own trace. If the job has a traceparent, the span has a link to the producer's
// context. The flag of that context decides whether the span is sampled, as if it were a child; otherwise
// OTEL_TRACES_SAMPLER decides. docs/017-traces.md has the reasons.
//
// Contract: Ended returns immediately, whatever the collector does. Spans that do not fit into the queue are dropped and
// counted. No text of a header is ever logged.
//
// Not for: spans of requests, or of a runner's work.
package trace
