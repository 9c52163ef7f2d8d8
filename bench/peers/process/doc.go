// Package process starts the servers of the comparison and ends them. A server ends with the process that started it,
// however that process ends.
//
// # Files
//
//	process.go   starts a server, waits until it answers, and stops it
//	usage.go     the processor time of a server's processes
//	syncs.go     how often a server syncs its files
//	find.go      the paths of programs; free ports
//	parent_linux.go, parent_other.go   a server ends with the process that started it
package process
