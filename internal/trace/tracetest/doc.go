// Package tracetest is a trace collector for tests: an HTTP handler that receives spans by OTLP in protobuf.
package tracetest
