// Package trace turns the ends of runs into spans of OpenTelemetry, and exports them by OTLP with the official SDK.
//
//	store ──► Exporter.Ended (never waits) ──► queue (bounded) ──► Exporter.Run: a span per run ──► SDK: batches, HTTP
//
// Each run of a job is a span of its own trace. It has a link to the context of the producer, if the job has a
// traceparent. Whether it is sampled follows from the flag of that context, as if it were a child, or from
// OTEL_TRACES_SAMPLER. docs/017-traces.md has the reasons.
//
// Contract: Ended returns at once, whatever the collector does. The spans that do not fit into the queue are counted.
// No text of a header is ever logged.
//
// Files:
//
//   - settings.go: whether spans are exported, and where, from a flag and the environment.
//   - sampler.go: which runs become spans.
//   - queue.go: the runs that wait to become spans.
//   - span.go: the span of a run.
//   - delivery.go: counting and logging what the collector accepts.
//   - sdk_log.go: the SDK's own messages.
//   - exporter.go: Exporter: Ended, Run, Counts.
//
// Not for: spans of requests, or of the work that a runner does.
package trace
