// Package runs implements the format application/vnd.daybook.runs, in which jobs, outcomes and results travel in runs. A
// run is a sequence of jobs with consecutive ids that have everything else in common. One head line describes all of
// them. Their payloads follow it, exactly as they were posted. docs/reference/format-runs.md has the grammar.
//
// A text in this format has sections. The head line of a section gives the number of its runs, except for #:batch:
//
//	#:create     new jobs
//	#:claim      jobs that a claim has handed out
//	#:complete   outcomes of jobs
//	#:results    results of outcomes: the status of each job, or a refusal
//	#:batch      results of a batch; it ends with a line #:end, because its runs are written while jobs end
//
// The Append functions append a head line or a run to a text. A Decoder reads a text. It accepts exactly the texts that
// the Append functions write, so that each text has one meaning and one spelling. It does not copy payloads. A
// BatchReader reads the results of a batch in the same way while they arrive.
//
// The package is independent of HTTP: the same text can be the body of a request or answer, or a message.
//
// # To change the format
//
// A decoder of version 1 refuses unknown fields. So every change needs a new version (v=2), which a server sends only to
// clients that request it. Change docs/reference/format-runs.md, and add golden files to testdata/runs.
//
// Not for: the rules about outcomes (package job), JSON.
package runs
