// Package protocol has the messages between a runner and a host, which is a process that runs handlers in one language.
// docs/reference/script-protocol.md describes them. A message is a JSON object on one line, on the host's descriptor 3.
//
// Not for: starting hosts, and the meaning of an answer (package script).
package protocol
