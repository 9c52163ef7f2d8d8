// Package matrix has the code that the benchmarks of the four layers share. The layers are the journal, the store, the
// engine of package ingest, and the server process over HTTP and in streams. Each layer has one benchmark, which measures
// the same kinds of work at points of one matrix and reports the same figures:
//
//	BenchmarkJournal  journal/matrix_test.go  commands are appended and synced
//	BenchmarkStore    store/matrix_test.go    commands are applied and committed, without a journal
//	BenchmarkIngest   ingest/matrix_test.go   journal and store together, without a network
//	BenchmarkProcess  bench/matrix_test.go    the real binary, over HTTP and in streams
//
// A point names its values, as benchstat expects it:
//
//	BenchmarkIngest/backlog=0/queues=1/size=100/work=drain/batch=100/conns=16
//
// A full cross product of the dimensions would run for hours. So each layer starts at a base point and varies one or two
// dimensions at a time. With -short, a layer measures only a few points: the short set, which `make bench SET=compare`
// compares with another commit. `make bench SET=matrix` measures all points.
//
// # Figures
//
//	jobs/s      jobs per second of wall time
//	ns/job      its inverse, for comparisons
//	p50-ns, p99-ns, p999-ns
//	            the time of one call: of the claim if the work has one (a lifecycle: of all its calls)
//	cpu-ns/job  processor time: of the server process at the process layer, otherwise of the whole test process
//	allocs/job  allocations on the heap of the same process
//	bytes/job   bytes written to the journal; for the store, bytes of changes that commits pass to Pebble
//	fsyncs/job  syncs of the journal; the store alone makes none
package matrix
