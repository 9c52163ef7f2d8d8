// Package protocol has the messages between a runner and a host: a process that runs handlers in one language.
// docs/reference/script-protocol.md describes them. A message is a JSON object in one line, on descriptor 3 of the host.
//
// Not for: starting hosts and deciding what an answer means (package script).
//
// # Files
//
//	send.go     the messages that a runner sends
//	receive.go  the messages that a host sends
//	lines.go    from bytes to lines of a bounded length
package protocol
