// Package measure compares systems that hold jobs: it runs the same works against each of them in turns, and computes
// rates, latencies, processor time and ratios.
//
// A system is driven through a Driver. For every turn the driver starts the system's server on an empty directory, so
// that no turn sees the data of an earlier turn. The number of jobs in a turn is calibrated for this driver and work, so
// that all turns take about as long. The driver warms up first, outside of the measured time.
//
// A Round has one turn of each driver of a block. Ratios compare two turns of one round, which are seconds apart, so that
// other work on the machine affects both alike.
//
// Not for: the systems themselves (packages daybook and peer), the output (packages report and plot).
//
// # Files
//
//	work.go     kinds of work, and the blocks of works that are compared
//	driver.go   the interfaces that a measured system implements
//	turn.go     one measurement: its clock and its latencies
//	loops.go    the loops over connections: create, drain, both, lifecycle, exchange
//	syncs.go    whether a server syncs its files before it answers
//	run.go      calibration, rounds, and the end of every server
//	result.go   the results, as they are written as JSON
//	stats.go    median and spread; ratios of turns
//	target.go   the ratios that Daybook should reach
package measure
