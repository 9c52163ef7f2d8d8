// Package slots decides which handler of a runner begins the next run. A runner has a number of slots. A run takes one or
// more of them, and while it lasts no other run has them.
//
// Each handler has a Share with a weight. While handlers wait, the slots of the runs that they begin are in the
// proportion of their weights: with weights 3 and 1, three runs of one slot begin for each one of the other. Equal weights
// take turns.
//
// The method is stride scheduling: C. A. Waldspurger and W. E. Weihl, "Stride Scheduling: Deterministic
// Proportional-Share Resource Management", MIT/LCS/TM-528, 1995. Each share has a pass, and the share with the smallest
// one is next. A run advances the pass by slots / weight.
//
// Contract:
//
//   - If the share whose turn it is does not fit, the free slots are kept for it, and no other run begins. So a handler
//     whose runs take 4 slots is not starved by those whose runs take one. Until enough runs have ended, the kept slots
//     are idle.
//   - A share with as many runs as it may have has no turn, and nothing is kept for it.
//   - A share that had no turn for a while collects no credit: its pass continues at that of the last run that began.
//   - Within a share, callers are served in the order in which they came.
//   - What counts is how many runs begin, not how long they take.
//
// A share gets its proportion only while a caller waits: one that calls Acquire after each Release is a moment late, and
// the slots may be gone. So let one caller more wait than there are runs.
//
// Not for: running (the packages of the kinds), choosing which jobs are claimed (the server's strategies).
//
// # Files
//
//	schedule.go  whose turn it is; not safe for concurrent use
//	slots.go     the same for many goroutines, which wait for their turn
package slots
