// The demo processes real input and loses none of it, although it kills the server: `make bench SET=demo`. It
//
//   - posts a million lines of files that it finds on this machine;
//   - runs four Workers of the Go client, which compute a checksum of each line;
//   - kills the server with SIGKILL and starts it again, three times;
//   - at the end reads all jobs back. Every line must have one completed job, with the right output.
//
// With -cluster (`make bench SET=demo-cluster`), three nodes share a journal. The demo kills each of them once, and starts it
// again after the two other nodes have worked without it. Then it kills the leader, deletes its data, and lets a node with a
// new name join in its place. At the end every node must have one completed job for each line, and all of them the same
// documents.
package main
