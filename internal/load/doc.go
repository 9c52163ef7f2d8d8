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
package load
