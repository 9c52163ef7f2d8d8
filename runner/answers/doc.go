// Package answers reads the lines with which a web service or a process answers a batch of jobs. The contract is that of
// miniq's HTTP runner: the i-th line that is neither empty nor a comment answers the i-th job, and begins with an exit
// code.
//
//	200                       ok
//	200 text                  ok, and the text is the output
//	404 no such user          failed, and the text is the error
//	503                       error; 1xx is retry
//	# text                    a comment
//	J: mail|to: ada           creates a job of type mail with the payload "to: ada"
//	#J: mail|to: ada          the same; other readers see a comment
//
// White space at both ends of a line is ignored, so lines may end with CR LF. An exit code is a whole number. A number
// without a class (0 to 99, 300 to 399, 600 and above) is retry.
//
// A J line belongs to the job that the next answer answers, and a J line after the last answer to the last job. Its
// payload is everything after the first bar, to the end of the line.
//
// What is wrong in the lines is an error of a job, with an exit code of 500 and a code:
//
//   - NO_RESPONSE: the job has no line.
//   - INVALID_RESPONSE: the line does not begin with a number, or begins with a negative one. Nobody knows which jobs the
//     lines after it answer, so they are INVALID_RESPONSE too.
//   - INVALID_RESPONSE of one job: a J line of the job has no valid type, the job has too many of them, or one of them
//     is too long. The other lines count.
//
// An answer whose text is longer than an output may be makes its job failed: another run would have the same output. An
// error's text is cut instead.
//
// A line is a J line only if it has a bar. It creates a job only if the handler lists its type (ChainTypes), and is
// ignored otherwise.
//
// Lines after the answer of the last job that create no job are ignored.
//
// Not for: sending batches (packages webhook, program).
//
// # Files
//
//	answer.go      an answer, and the end of a run that follows from it
//	chain_types.go the types of jobs that lines may create
//	job_lines.go  lines that create jobs
//	reader.go     from lines to answers
package answers
