// The demo processes real input and loses none of it, although it kills the server. It
//
//   - posts lines of files that it finds on this machine;
//   - runs processes that claim the jobs and compute a checksum of each line;
//   - kills the server with SIGKILL and starts it again, several times;
//   - at the end reads every job back, and compares it with its line.
//
// Run it with
//
//	make demo
//
// # Files
//
//	main.go    flags
//	play.go    serving, posting, killing, and showing the progress
//	lines.go   the lines, and what a runner computes from one
//	runner.go  the runner processes
//	audit.go   reading every job back
package main
