// Package process starts the servers of the comparison and ends them. A server ends with the process that started it,
// however that ends.
//
// # Files
//
//	process.go   starting, waiting until it answers, stopping
//	usage.go     the processor time of a server's processes
//	syncs.go     how often a server syncs its files
//	find.go      where programs are; free ports
//	parent_linux.go, parent_other.go   a server ends with the process that started it
package process
