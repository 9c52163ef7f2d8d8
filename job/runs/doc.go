// Package runs is the format application/vnd.daybook.runs, in which jobs, outcomes and results travel in runs. A run is
// a stretch of jobs with consecutive ids that have everything else in common. One head line describes all of them. The
// payloads follow it, exactly as they were posted. docs/reference/format-runs.md has the grammar.
//
// A text in this format has sections. The head line of a section says how many runs follow, except for #:batch:
//
//	#:create     new jobs
//	#:claim      jobs that a claim has handed out
//	#:complete   outcomes of jobs
//	#:results    what became of outcomes
//	#:batch      results of a batch; it ends with a line #:end, because its runs are written while jobs end
//
// The Append functions append a head line or a run to a text. A Decoder reads a text. It accepts exactly what the
// Append functions write, so that each text has one meaning and one spelling. It does not copy payloads. A BatchReader
// does the same with the results of a batch while they arrive.
//
// The package knows nothing of HTTP: the same text can be the body of a request or answer, or a message.
//
// # To change the format
//
// A decoder of version 1 refuses fields that it does not know. So a change is a new version (v=2), which a server sends
// only to clients that request it. Change docs/reference/format-runs.md, and add golden files to testdata/runs.
//
// The files:
//
//	run.go             Run: jobs, and their payloads
//	creation.go        sections of new jobs
//	claim.go           sections of jobs
//	completion.go      sections of outcomes
//	results.go         sections of results
//	batch_results.go   sections of the results of a batch
//	head.go            writing and reading a head line
//	decoder.go         Decoder: the order of the parts, and what they have in common
//
// Not for: what the outcomes may say about a job (package job), JSON.
package runs
