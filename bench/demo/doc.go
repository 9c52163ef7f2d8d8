// The demo processes real input and loses none of it, although it kills the server: `make bench SET=demo`. It
//
//   - posts a million lines of files that it finds on this machine;
//   - runs four Workers of the Go client, which compute a checksum of each line;
//   - kills the server with SIGKILL and starts it again, three times;
//   - at the end reads all jobs back. Every line must have one completed job, with the right output.
package main
