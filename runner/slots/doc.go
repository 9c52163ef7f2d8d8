// Package slots decides which handler of a runner begins the next run. A runner has a fixed number of slots. Each run
// occupies one or more of them until it ends.
//
// Each handler has a Share with a weight. While handlers wait, they get slots in proportion to their weights: with
// weights 3 and 1 and runs of one slot, the first begins three runs for each run of the second. Handlers of equal
// weight take turns.
//
// The method is stride scheduling: C. A. Waldspurger and W. E. Weihl, "Stride Scheduling: Deterministic
// Proportional-Share Resource Management", MIT/LCS/TM-528, 1995. Each share has a pass, and the share with the smallest
// pass is next. A run advances its share's pass by slots / weight.
//
// Contract:
//
//   - If the next share's run does not fit, the free slots are kept for it, and no other run begins. Therefore handlers
//     whose runs take one slot cannot starve a handler whose runs take 4. Kept slots are idle until enough runs have
//     ended.
//   - A share at its limit of runs is skipped, and no slots are kept for it.
//   - A share that waited for nothing for a while collects no credit: it continues at the pass of the last run that
//     began.
//   - Within a share, callers are served in order of arrival.
//   - Only the number of runs that begin counts, not how long they take.
//
// A share gets its proportion only while a caller waits. If a handler calls Acquire only after each Release, it is a
// moment late, and the slots may be gone. So let one caller more wait than the share may have runs.
//
// Not for: running (the packages of the kinds), choosing which jobs to claim (the server's strategies).
package slots
