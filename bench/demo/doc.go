// The demo processes real input and loses none of it, although it kills the server. It
//
//   - posts lines of files that it finds on this machine;
//   - runs processes that claim the jobs and compute a checksum of each line;
//   - kills the server with SIGKILL and starts it again, several times;
//   - at the end reads every job back, and compares it with its line.
//
// Run it with
//
//	make bench SET=demo
package main
