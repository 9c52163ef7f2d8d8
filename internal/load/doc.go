// Package load measures how fast a server answers. Closed sends as fast as the callers can. Open sends at a fixed rate,
// whatever the server does.
//
// A closed loop finds a server's peak rate. It says little about latency: while the server stalls, the callers wait and
// send nothing, so a stall of a second counts as one slow call for each caller. This is called coordinated omission. An
// open loop avoids it: arrivals have fixed times, and each latency is counted from that time, not from when the call was
// sent.
//
// Arrivals of an open loop are equally spaced. Random arrivals (a Poisson process) are closer to many small clients, but
// they come in bursts. A burst can then cause a slow answer, and a stall of the server is harder to see.
//
// The number of outstanding calls, the memory of histograms and timelines, and the time are all bounded.
//
// Not for: choosing the calls. The callers of this package pass a function.
//
// # Files
//
//	open.go          arrivals at a fixed rate
//	closed.go        callers that send their next call when the last is answered
//	latencies.go     histograms of latencies
//	timeline.go      latencies by time of arrival; stalls
//	disk.go          the duration of an append and an fsync of a plain file, measured repeatedly
//	text.go          figures as text
//	machine.go       processor time of the whole machine
//	own_unix.go      processor time of this process
//	own_windows.go   the same on Windows
//	clock_linux.go   sleeping for less than a millisecond
//	clock_other.go   the same on other systems
package load
