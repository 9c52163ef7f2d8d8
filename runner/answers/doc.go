// Package answers reads the lines with which a web service or a process answers a batch of jobs. It follows the
// contract of miniq's HTTP runner: each line begins with an exit code, and the i-th line that is neither empty nor a
// comment answers the i-th job.
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
// outside these classes (0 to 99, 300 to 399, 600 and above) means retry.
//
// A J line belongs to the job that the next answer answers. A J line after the last answer belongs to the last job. Its
// payload is everything after the first bar, to the end of the line.
//
// A mistake in the lines is an error of a job, with exit code 500 and a code:
//
//   - NO_RESPONSE: the job lacks a line.
//   - INVALID_RESPONSE: the line does not begin with a number, or begins with a negative one. It is then unknown which
//     jobs the later lines answer, so they are INVALID_RESPONSE too.
//   - INVALID_RESPONSE of one job: one of the job's J lines has an invalid type or is too long, or the job has too many.
//     The lines of all other jobs still count.
//
// If the text of an ok answer is longer than an output may be, the job fails, because a retry would return the same
// output. An error's text is cut instead.
//
// A line is a J line only if it has a bar. It creates a job only if the handler lists its type (ChainTypes), and is
// ignored otherwise.
//
// Lines after the last job's answer that create no job are ignored.
//
// Not for: sending batches (packages webhook, program).
package answers
