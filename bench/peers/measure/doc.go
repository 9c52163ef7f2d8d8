// Package measure compares systems that hold jobs: it runs the same works against each of them by turns, and computes
// rates, latencies, processor time and ratios.
//
// A system is driven through a Driver. For every turn the driver starts the system's server on an empty directory, so
// that no turn sees what an earlier one left. A turn has a size that was calibrated for this driver and work, so that
// it takes about as long as the turns of the others. It is warmed up first, outside of the measured time.
//
// A Round has one turn of each driver of a block. Ratios compare two turns of one round, which are seconds apart; other
// work on the machine affects both alike.
//
// Not for: the systems themselves (packages daybook and peer), the output (packages report and plot).
//
// # Files
//
//	work.go     what is measured: kinds of work, the blocks of works that are compared
//	driver.go   what a system must be able to do to be measured
//	turn.go     one measurement: its clock and its latencies
//	loops.go    the loops over connections: create, drain, both, lifecycle, exchange
//	syncs.go    whether a server syncs its files before it answers
//	run.go      calibration, rounds, and the end of every server
//	result.go   the results, as they are written as JSON
//	stats.go    median and spread; ratios of turns
//	target.go   the ratios that Daybook is to reach
package measure
