// Package tracetest is a collector of traces for tests: an HTTP handler that takes spans by OTLP in protobuf.
//
// Files:
//
//   - collector.go: the collector, and the spans that it has got.
package tracetest
