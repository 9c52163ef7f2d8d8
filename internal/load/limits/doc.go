// Package limits measures the works of package works on one server, and finds out what limits each: the processors, the
// disk, the round trips, or something that it cannot see.
//
// # Files
//
//	run.go        the phases: the disk, then each work at its peak and at half of it
//	facts.go      resources that the server, this process and the machine used during a phase
//	verdict.go    what limits a work, from its facts
package limits
