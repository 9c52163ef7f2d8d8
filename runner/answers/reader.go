package answers

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"unicode"
)

// lineRoom is how many bytes a line may have in addition to an output: its exit code and white space.
const lineRoom = 1 << 10

// Reader parses lines into answers. It is not safe for concurrent use.
type Reader struct {
	jobs     int // jobs in the batch
	chain    ChainTypes
	longest  int // most bytes to keep of a line
	answered int // jobs with a line
	finished bool
	distrust string // why lines no longer count; "" while they do
	last     Answer // the last job's answer, kept until Rest because later lines can create jobs
	part     []byte // the beginning of an incomplete line; at most longest+1 bytes
	dropped  int64  // bytes of that line that were not kept

	// Job lines of the job that the next line answers, or of the last job if all jobs have a line:
	lines JobLines
}

// NewReader returns a reader of the answers of n jobs, with outputs of up to mostOutput bytes. Lines can create jobs of
// the types in chain.
func NewReader(n int, chain ChainTypes, mostOutput int64) *Reader {
	return &Reader{jobs: n, chain: chain, longest: max(MaxLineBytes, int(mostOutput)+lineRoom)}
}

// Take takes the next part of the text, and calls each for every answer that it completes, except the last job's. It
// does not retain b.
func (r *Reader) Take(b []byte, each func(Answer)) {
	for len(b) > 0 {
		line, rest, complete := bytes.Cut(b, []byte("\n"))
		b = rest
		if len(r.part) == 0 {
			if complete {
				r.take(line, each)
				continue
			}
			line = bytes.TrimLeftFunc(line, unicode.IsSpace) // leading white space does not count against longest
		}
		n := min(len(line), r.longest+1-len(r.part))
		r.part = append(r.part, line[:n]...)
		r.dropped += int64(len(line) - n)
		if complete {
			r.Finish(each)
		}
	}
}

// Finish takes the incomplete line as a whole line. Call it at the end of a text whose last line lacks a line end.
func (r *Reader) Finish(each func(Answer)) {
	line := r.part
	r.part, r.dropped = r.part[:0], 0
	if cap(line) > keptPart {
		r.part = nil
	}
	r.take(line, each)
}

// keptPart is the largest capacity of part that is kept for the next line.
const keptPart = 64 << 10

func (r *Reader) take(line []byte, each func(Answer)) {
	if a, ok := r.Line(line); ok {
		each(a)
	}
}

// Line takes a line, with or without its line end. If the line answers a job other than the last, Line returns the
// answer and true. Rest returns the last job's answer. Line does not retain the slice.
func (r *Reader) Line(line []byte) (Answer, bool) {
	cutOff := len(line) > r.longest
	tooLong := len(line) > MaxLineBytes // for a line that creates a job
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return Answer{}, false
	}
	if _, ok := cut(line); ok {
		if text, ok := r.chain.Cut(line); ok && r.distrust == "" { // after distrust the job's answer is an error, which creates no jobs
			r.lines.Add(text, tooLong)
		}
		return Answer{}, false
	}
	if line[0] == '#' {
		return Answer{}, false
	}
	if r.answered == r.jobs {
		return Answer{}, false
	}
	r.answered++
	a := r.answer(line, cutOff)
	if r.answered == r.jobs {
		r.last = a
		return Answer{}, false
	}
	return r.withJobs(a), true
}

// answer parses a line that answers a job.
func (r *Reader) answer(line []byte, cutOff bool) Answer {
	if r.distrust != "" {
		return r.distrusted()
	}
	n, rest, ok := leadingNumber(line)
	if !ok {
		r.distrust = fmt.Sprintf("line %d of the answers does not begin with an exit code: %.100q", r.answered, line)
		return r.distrusted()
	}
	return Answer{ExitCode: n, Text: string(bytes.TrimSpace(rest)), CutOff: cutOff}
}

func (r *Reader) distrusted() Answer {
	a := invalid(r.distrust)
	a.Unclear = true
	return a
}

// leadingNumber cuts a whole number off a line. All numbers that are too large for an exit code become math.MaxInt32.
func leadingNumber(line []byte) (n int, rest []byte, ok bool) {
	rest = bytes.TrimPrefix(line, []byte("+"))
	digits := 0
	for digits < len(rest) && '0' <= rest[digits] && rest[digits] <= '9' {
		n = min(10*n+int(rest[digits]-'0'), math.MaxInt32)
		digits++
	}
	return n, rest[digits:], digits > 0
}

// withJobs adds the jobs of the J lines to an answer, or replaces it by an error if a J line is invalid.
func (r *Reader) withJobs(a Answer) Answer {
	then, bad := r.lines.Take()
	switch {
	case a.Code != "":
	case bad != "":
		a = invalid(bad)
	default:
		a.Then = then
	}
	return a
}

// Rest returns the remaining answers after the last line: the last job's answer, or NO_RESPONSE for each job without a
// line. A second call returns nothing.
func (r *Reader) Rest() []Answer {
	if r.finished || r.jobs == 0 {
		return nil
	}
	r.finished = true
	if r.answered == r.jobs {
		return []Answer{r.withJobs(r.last)}
	}
	missing := Answer{ExitCode: 500, Code: NoResponse, Unclear: true, Text: fmt.Sprintf("%d of %d jobs have a line in the answer", r.answered, r.jobs)}
	return slices.Repeat([]Answer{missing}, r.jobs-r.answered)
}

// Dropped returns how many bytes of the incomplete line were dropped because it is longer than an answer may be. The
// caller must bound them. Finish then takes the beginning of the line as its job's answer.
func (r *Reader) Dropped() int64 { return r.dropped }

// Answered returns how many jobs have a line.
func (r *Reader) Answered() int { return r.answered }

// Read reads all lines of a text, and calls each for every answer as soon as its line has arrived. It returns nil at
// the end of the text, or the error of reading it. A line that an error cut off does not count. The caller knows why
// the text ended, so Read leaves calling Rest to it.
func (r *Reader) Read(text io.Reader, each func(Answer)) error {
	buffer := make([]byte, 16<<10)
	for {
		n, err := text.Read(buffer)
		r.Take(buffer[:n], each)
		switch err {
		case nil:
		case io.EOF:
			r.Finish(each)
			return nil
		default:
			return err
		}
	}
}
