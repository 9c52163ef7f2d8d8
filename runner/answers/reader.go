package answers

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// Reader makes answers from lines. It is for one goroutine.
type Reader struct {
	jobs     int // of the batch
	chain    ChainTypes
	answered int // jobs that have a line
	finished bool
	distrust string // why no line counts any more; "" while lines count
	last     Answer // of the last job, which is kept until Rest, since lines after it can create jobs

	// Of the job that the next line answers, or of the last job when each has a line:
	lines JobLines
}

// NewReader returns a reader of the lines that answer n jobs, and that create jobs of these types.
func NewReader(n int, chain ChainTypes) *Reader { return &Reader{jobs: n, chain: chain} }

// Line takes a line, with or without its line end. If it answers a job other than the last one, Line returns the answer
// of the next job and true. Rest returns the answer of the last job. Line keeps nothing of the slice.
func (r *Reader) Line(line []byte) (Answer, bool) {
	tooLong := len(line) > MaxLineBytes
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return Answer{}, false
	}
	if _, ok := cut(line); ok {
		if text, ok := r.chain.Cut(line); ok && r.distrust == "" { // otherwise the job's answer is an error, which creates none
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
	a := r.answer(line, tooLong)
	if r.answered == r.jobs {
		r.last = a
		return Answer{}, false
	}
	return r.withJobs(a), true
}

// answer reads a line that answers a job.
func (r *Reader) answer(line []byte, tooLong bool) Answer {
	if r.distrust != "" {
		return invalid(r.distrust)
	}
	n, rest, ok := leadingNumber(line)
	if !ok {
		r.distrust = fmt.Sprintf("line %d of the answers does not begin with an exit code: %.100q", r.answered, line)
		return invalid(r.distrust)
	}
	if tooLong {
		return invalid(fmt.Sprintf("line %d of the answers has more than %d bytes", r.answered, MaxLineBytes))
	}
	return Answer{ExitCode: n, Text: string(bytes.TrimSpace(rest))}
}

// leadingNumber cuts a whole number off a line. Numbers that are too large for an exit code are all the same one.
func leadingNumber(line []byte) (n int, rest []byte, ok bool) {
	rest = bytes.TrimPrefix(line, []byte("+"))
	digits := 0
	for digits < len(rest) && '0' <= rest[digits] && rest[digits] <= '9' {
		n = min(10*n+int(rest[digits]-'0'), math.MaxInt32)
		digits++
	}
	return n, rest[digits:], digits > 0
}

// withJobs completes an answer with what the J lines say.
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

// Rest returns the answers of the jobs that Line has returned none for: that of the last job, or NO_RESPONSE for each
// job without a line. It is for the end of the lines. A second call returns nothing.
func (r *Reader) Rest() []Answer {
	if r.finished || r.jobs == 0 {
		return nil
	}
	r.finished = true
	if r.answered == r.jobs {
		return []Answer{r.withJobs(r.last)}
	}
	missing := Answer{ExitCode: 500, Code: NoResponse, Text: fmt.Sprintf("%d of %d jobs have a line in the answer", r.answered, r.jobs)}
	return slices.Repeat([]Answer{missing}, r.jobs-r.answered)
}

// Answered returns how many jobs have a line.
func (r *Reader) Answered() int { return r.answered }

// Read takes all lines of a text, and calls each with every answer as soon as its line has arrived. It leaves the
// answers of Rest to the caller, who knows why the text ended. The error is that of the text, or nil at its end. A line
// that was cut off by an error does not count.
func (r *Reader) Read(text io.Reader, each func(Answer)) error {
	lines := bufio.NewReaderSize(text, 16<<10)
	var long []byte // the beginning of a line that the buffer of lines cannot hold
	for {
		part, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			long = append(long, part[:min(len(part), MaxLineBytes+1-len(long))]...)
			continue
		}
		if err != nil && err != io.EOF {
			return err
		}
		if long != nil {
			part = append(long, part[:min(len(part), MaxLineBytes+1-len(long))]...)
			long = nil
		}
		if a, ok := r.Line(part); ok {
			each(a)
		}
		if err != nil {
			return nil
		}
	}
}
