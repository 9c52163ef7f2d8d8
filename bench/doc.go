// Package bench measures the real server binary over HTTP and in streams. `make bench` measures throughput and latency,
// `make bench-matrix` measures them at many points, `make scale` measures ten million pending jobs, and `make sweeps`
// measures claims while ten million jobs are cancelled, redriven and deleted.
//
// The load comes from this process, on the same machine. Every create and every decision is on disk before the server
// answers. docs/explanation/performance.md has the results.
//
// # Files
//
//	load.go         a client that uses little processor time, and latencies
//	server_test.go  a server for tests and benchmarks, and jobs for it
//	matrix_test.go  BenchmarkProcess: creates, claims and completions at the points of a matrix
//	stream_test.go  the same work in streams
//	create_test.go  single creates through the Go client
//	forms_test.go   claims in JSON and in runs, in turns
//	filesets_test.go filesets of 10,000 files
//	worker_test.go  the Go client's Worker compared with a loop that decodes nothing
//	runner_test.go  `daybook work` compared with the Go client's Worker
//	scale_test.go   ten million pending jobs
//	sweep_test.go   claims during sweeps of ten million jobs
//	idle_test.go    thousands of idle connections
//	waiting_runners_test.go  single jobs, while hundreds of runners wait over HTTP
//
// Folder matrix has the code that these benchmarks share with the benchmarks of the journal, the store and the engine.
// Folder compare compares them with another commit (`make bench-compare`). Folder open measures latencies at fixed rates
// of arrivals (`make bench-open`). Folder demo is a program to watch. Folder rig freezes server processes, and reads
// their memory, their processor time and the bytes that they write. Folder peers, a separate module, compares Daybook
// with other queues.
package bench
