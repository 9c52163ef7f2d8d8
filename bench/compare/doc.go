// Command compare measures the short set of the benchmarks of package matrix at another commit and in the working tree,
// and fails if the working tree is slower: `make bench-compare BASE=<commit>`.
//
// It checks the commit out in a temporary git worktree, and builds the test binaries and the server of both. The base gets
// package matrix of the working tree, so that the same code measures the rounds of both; each keeps its workloads. In each
// round it runs each benchmark on both sides, one directly after the other; which comes first alternates. If the test
// binaries of a package, and the server that it uses, are identical on both sides, the package is left out.
//
// # What decides
//
// A benchmark is slower if its processor time per job (cpu-ns/job) or its wall time per job (ns/job) has grown by 5 % or
// more in the median of the rounds, with p < 0.05.
//
//   - Processor time is the steadier of the two. On two cores that other work kept busy, the same binary differed from
//     run to run by 17 % (standard deviation) in processor time and by 53 % in wall time. Wall time decides as well,
//     because a wait costs no processor time.
//   - The test is one of pairs (paired.go), because the ratio of two runs in the same second differs much less than the
//     runs of some minutes do. benchstat's own p, that of a Mann-Whitney U test of two independent samples, is printed
//     beside it. Both hold for noisy figures: noise hides small slowdowns and does not make up slowdowns.
//   - Thirty comparisons with p < 0.05 would still fail in every second run without a reason. So what looks slower is
//     measured again, with as many rounds of these benchmarks alone. It fails only if the new rounds alone show the same.
//   - How small a slowdown it sees depends on the machine. With other work on both cores (a load average of 7) the median
//     of 16 rounds is known to 3 to 6 %, so that a slowdown of 10 % may be missed. More rounds (-rounds) or a quiet
//     machine help.
//   - Counts (fsyncs, bytes and allocations per job) do not decide. They are nearly exact and often explain a slowdown,
//     but more of them is not always slower: a faster program may close smaller groups, which need more fsyncs per job.
//     Counts that have grown by 5 % or more are reported.
//
// A benchmark that only one side has is reported and does not fail. A commit that is older than package matrix has none
// of its benchmarks. Then there is nothing to compare, which is an error. If the working tree has changed what a
// benchmark does, its comparison says nothing about the server.
//
// Exit codes: 0 nothing is slower, 1 something is, 2 the comparison could not be made.
//
// # Files
//
//	main.go     flags, and the steps
//	trees.go    the two trees, and the binaries built from them
//	turns.go    runs of the binaries by turns
//	results.go  results of benchmarks, and their comparison
//	paired.go   the test of pairs
package main
