package answers

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"unicode"
)

// lineRoom is how many bytes a line may have beside an output: its exit code, and white space.
const lineRoom = 1 << 10

// Reader makes answers from lines. It is for one goroutine.
type Reader struct {
	jobs     int // of the batch
	chain    ChainTypes
	longest  int // bytes that are kept of a line
	answered int // jobs that have a line
	finished bool
	distrust string // why no line counts any more; "" while lines count
	last     Answer // of the last job, which is kept until Rest, since lines after it can create jobs
	part     []byte // of a line whose end has not arrived; at most longest+1 bytes
	dropped  int64  // bytes of that line that are not in part

	// Of the job that the next line answers, or of the last job when each has a line:
	lines JobLines
}

// NewReader returns a reader of the lines that answer n jobs with outputs of up to mostOutput bytes, and that create jobs of
// these types.
func NewReader(n int, chain ChainTypes, mostOutput int64) *Reader {
	return &Reader{jobs: n, chain: chain, longest: max(MaxLineBytes, int(mostOutput)+lineRoom)}
}

// Take takes the next part of the text, and calls each with every answer that it completes, except the last job's answer.
// It keeps nothing of the slice.
func (r *Reader) Take(b []byte, each func(Answer)) {
	for len(b) > 0 {
		line, rest, complete := bytes.Cut(b, []byte("\n"))
		b = rest
		if len(r.part) == 0 {
			if complete {
				r.take(line, each)
				continue
			}
			line = bytes.TrimLeftFunc(line, unicode.IsSpace) // white space does not fill the room of a line
		}
		n := min(len(line), r.longest+1-len(r.part))
		r.part = append(r.part, line[:n]...)
		r.dropped += int64(len(line) - n)
		if complete {
			r.Finish(each)
		}
	}
}

// Finish takes what has arrived of a line as a whole line. It is for the end of a text whose last line has no line end.
func (r *Reader) Finish(each func(Answer)) {
	line := r.part
	r.part, r.dropped = r.part[:0], 0
	if cap(line) > keptPart {
		r.part = nil
	}
	r.take(line, each)
}

// keptPart is the capacity of a long line's beginning that is used again for the next one.
const keptPart = 64 << 10

func (r *Reader) take(line []byte, each func(Answer)) {
	if a, ok := r.Line(line); ok {
		each(a)
	}
}

// Line takes a line, with or without its line end. If it answers a job other than the last one, Line returns the answer
// of the next job and true. Rest returns the answer of the last job. Line keeps nothing of the slice.
func (r *Reader) Line(line []byte) (Answer, bool) {
	cutOff := len(line) > r.longest
	tooLong := len(line) > MaxLineBytes // for a line that creates a job
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
	a := r.answer(line, cutOff)
	if r.answered == r.jobs {
		r.last = a
		return Answer{}, false
	}
	return r.withJobs(a), true
}

// answer reads a line that answers a job.
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
	missing := Answer{ExitCode: 500, Code: NoResponse, Unclear: true, Text: fmt.Sprintf("%d of %d jobs have a line in the answer", r.answered, r.jobs)}
	return slices.Repeat([]Answer{missing}, r.jobs-r.answered)
}

// Dropped returns how many bytes were dropped of the line whose end has not arrived, because it is longer than an answer may
// be. The caller bounds them: Finish then takes the beginning of the line for the answer of its job.
func (r *Reader) Dropped() int64 { return r.dropped }

// Answered returns how many jobs have a line.
func (r *Reader) Answered() int { return r.answered }

// Read takes all lines of a text, and calls each with every answer as soon as its line has arrived. It leaves the
// answers of Rest to the caller, who knows why the text ended. The error is that of the text, or nil at its end. A line
// that was cut off by an error does not count.
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
