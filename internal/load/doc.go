// Package load measures how fast a server answers: as fast as its callers can send (Closed), or at a fixed rate of
// arrivals whatever the server does (Open).
//
// A closed loop finds the most that a server can do. It says little about latency: while the server stalls, the callers
// wait and send nothing, so that a stall of a second counts as one slow call for each caller. This is called coordinated
// omission. An open loop has none: its arrivals have fixed times, and the latency of each is counted from that time, not
// from when the call was sent.
//
// The times of an open loop have equal distances. Arrivals at random times (a Poisson process) are closer to many small
// clients, but they come in bursts of their own. Then a slow answer can be the fault of the burst, and a stall of the
// server is harder to see.
//
// Everything is bounded: the number of calls under way, the memory of histograms and timelines, and the time.
//
// Not for: deciding what is called. The callers of this package pass a function.
//
// # Files
//
//	open.go          arrivals at a fixed rate
//	closed.go        callers that send their next call when the last one is answered
//	latencies.go     histograms of latencies
//	timeline.go      latencies by the time of their arrival; stalls
//	disk.go          how long an append and an fsync of a plain file take, once and over a time
//	text.go          figures as text
//	machine.go       processor time of the whole machine
//	own_unix.go      processor time of this process
//	own_windows.go   the same on Windows
//	clock_linux.go   sleeping for less than a millisecond
//	clock_other.go   the same on other systems
package load
