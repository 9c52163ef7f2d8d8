// The demo processes real input and loses none of it, although it kills the server. It
//
//   - posts lines of files that it finds on this machine;
//   - runs processes that claim the jobs and compute a checksum of each line;
//   - kills the server with SIGKILL and starts it again, several times;
//   - at the end reads all jobs back. Every line must have one completed job, with the right output.
//
// Run it with
//
//	make bench SET=demo
package main
