// Package node is one member of a cluster as a step function: events in, and writes, messages and records out. It has no
// goroutine, clock, disk or network. A server drives it with goroutines (package cluster), and a simulation by a seed.
//
//	own commands ──► groups, numbered ──► the leader: seq, time ──► entry ──► Raft ──► committed ──► records, in order
//	                     ▲                                                                 │
//	                     └── sent again until they come back ◄─────────────────────────────┘
//
// # Commands
//
// A node gathers its commands into groups and sends these to whoever leads, in order, again and again until it sees them
// come back in the log. The leader gives each command a seq and the time, and appends a group as one entry. Nobody answers
// a group: the log does. job.Origin decides at the leader and at each node which commands are new, so a repeat, a message
// that comes late, and a change of the leader do no harm.
//
// # What is durable when
//
// Answers to other nodes that promise something (entries, term, vote) are a part of a write. The driver sends them when the
// write is on disk, and never earlier. Writes are durable in the order in which Ready returned them.
//
// # Leading
//
// A leader takes commands once it has delivered all entries before its term. So it knows the last seq, the last time and
// the last number of each node, and the entries of its term follow from what it appended itself.
package node
