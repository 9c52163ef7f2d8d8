// Package tracetest is a trace collector for tests: an HTTP handler that receives spans by OTLP in protobuf.
//
// Files:
//
//   - collector.go: the collector, and the spans that it has received.
package tracetest
