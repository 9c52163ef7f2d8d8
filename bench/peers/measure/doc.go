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
package measure
