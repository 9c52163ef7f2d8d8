// Package opsqueue serves the protocol of Opsqueue (https://github.com/channable/opsqueue, version 0.40.1), so that its
// producers and consumers can use a Daybook server without a change. It is a translation only. Package wire has the shapes
// of the messages.
//
// A program that starts the original's server can start this one in its place. A start uses, in this order:
//
//	argv ──ParseFlags──► Flags ──► listen ──NewListener──► connections ──Heartbeat──► each consumer
//	environ ──ReadEnvironment──►     └──PortPipe──► the process that started this one
//
// Files, in the order of a start:
//
//   - flags.go, flag_values.go, humantime.go: the original's flags, with its names, defaults, texts and exit code; their
//     values; durations such as `10 minutes`.
//   - environment.go: the original's environment variables.
//   - port_pipe.go: reporting the port to the process that started this one.
//   - listener.go, quickack_linux.go, quickack_other.go: connections that acknowledge each read at once.
//   - connection_names.go: the name of each consumer's connection.
//   - heartbeat.go: when a connection is pinged, and when it is dropped.
//
// To add a flag: a row in flagTable, a field in Flags, a row in docs/from-opsqueue.md (a test compares them).
package opsqueue
