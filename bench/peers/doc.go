// Command peers measures Daybook beside other queues on one machine: `make bench-peers`. docs/explanation/performance.md says how to
// run it, what the columns mean, and what came out.
//
// It is a module of its own, so that the libraries of the peers never reach another module. go.work does not use it.
//
// # Files
//
//	main.go   the flags, and the run from the first driver to the files
//
// Folder measure has the works, the turns and the figures; daybook and peer have the drivers; process starts and ends
// servers; report writes tables and JSON, plot the picture.
package main
