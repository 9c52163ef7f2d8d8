// Package bench measures the real server binary over HTTP and in streams. `make bench SET=short` measures throughput and latency,
// `make bench SET=matrix` measures them at many points, `make bench SET=scale` measures ten million pending jobs,
// `make bench SET=join` measures how long a new node takes to fetch so many jobs, and
// `make bench SET=sweeps` measures claims while ten million jobs are cancelled, redriven and deleted.
//
// The load comes from this process, on the same machine. Every create and every decision is on disk before the server
// answers. docs/explanation/performance.md has the results.
//
// Folder matrix has the code that these benchmarks share with the benchmarks of the journal, the store and the engine.
// Folder compare compares them with another commit (`make bench SET=compare`). Folder open measures latencies at fixed rates
// of arrivals (`make bench SET=open`). Folder demo is a program to watch. Folder rig freezes server processes, and reads
// their memory, their processor time and the bytes that they write. Folder peers, a separate module, compares Daybook
// with other queues, by the same streams and requests: Stream and Load.
package bench
