// Command compare measures the short set of the benchmarks of package matrix at another commit and in the working tree,
// and fails if the working tree is slower: `make bench SET=compare BASE=<commit>`.
//
// It checks the commit out in a temporary git worktree, and builds the test binaries and the server of both trees. In each round
// it runs each benchmark on both sides, directly after each other, in alternating order.
//
// # What decides
//
// A benchmark is slower if its processor time per job (cpu-ns/job) or its wall time per job (ns/job) has grown by 5 % or
// more in the median of the rounds, with p < 0.05.
//
//   - Processor time varies less than wall time. On two cores that other work kept busy, the same binary differed from
//     run to run by 17 % (standard deviation) in processor time and by 53 % in wall time. Wall time decides as well,
//     because a wait costs no processor time.
//   - The test compares pairs, because the ratio of two runs in the same second varies much less than the runs of some
//     minutes. benchstat prints the table, with the p of a Mann-Whitney U test of two independent samples. Both tests are
//     valid for noisy figures: noise hides small slowdowns, but does not invent slowdowns.
//   - Thirty comparisons with p < 0.05 would still fail in every second run without a reason. So a benchmark that looks
//     slower is measured again, in a second measurement with as many rounds of these benchmarks alone. The comparison
//     fails only if the new rounds alone show the same slowdown.
//   - The machine determines how small a slowdown it can detect. With other work on both cores (a load average of 7) the
//     median of 16 rounds is known to 3 to 6 %, so it may miss a slowdown of 10 %. More rounds (-rounds) or a quiet
//     machine help.
//   - Counts (fsyncs, bytes and allocations per job) do not decide. They are nearly exact and often explain a slowdown,
//     but a higher count is not always slower: a faster program may close smaller groups, which need more fsyncs per job.
//     benchstat's table has them.
//
// A benchmark that only one side has is reported, and does not make the comparison fail. A commit that is older than
// package matrix has none of its benchmarks. Then there is nothing to compare, which is an error. If the working tree has
// changed a benchmark's work, or how package matrix measures, the comparison says nothing about the server.
//
// Exit codes: 0 nothing is slower, 1 something is slower, 2 the comparison could not be made.
package main
