package runs

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/daybookq/daybook/job"
)

// version is the version of the format.
const version = 1

func (h *head) version() { h.int("v", version, version) }

func defaulted(field, name string) error {
	return fmt.Errorf("field %s=%s has its default; leave it out", field, name)
}

// Decoder reads a text. The caller calls the method for a section's head, then the method for its runs as often as the
// head says, and End after the last section. The results share memory with the text, except for the fields of head lines.
type Decoder struct {
	rest []byte
	size int // of the whole text
	run  int // runs of the section read so far
	runs int // runs that the section has
	jobs int // jobs in the runs that are left
}

// NewDecoder returns a decoder of a text, which it does not change.
func NewDecoder(text []byte) *Decoder { return &Decoder{rest: text, size: len(text)} }

// Error is the reason why a text cannot be read.
type Error struct {
	Offset int // of the head line
	Run    int // in its section, from 1; 0: the head of the section
	Err    error
}

func (e *Error) Error() string {
	if e.Run > 0 {
		return fmt.Sprintf("run %d, whose head line is at byte %d: %v", e.Run, e.Offset, e.Err)
	}
	return fmt.Sprintf("head line at byte %d: %v", e.Offset, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Is reports whether the next head line has the verb: create, claim, complete, results, batch, end or run.
func (d *Decoder) Is(verb string) bool {
	line, ok := bytes.CutPrefix(d.rest, []byte("#:"+verb))
	return ok && len(line) > 0 && (line[0] == ' ' || line[0] == '\n')
}

// Claim reads the head of a section of jobs, and the lines of its handlers.
func (d *Decoder) Claim() (c Claim, err error) {
	handlers := 0
	err = d.section("claim", func(h *head) (runs, jobs int) {
		c, handlers = h.claim()
		return c.Runs, c.Jobs
	})
	for range handlers {
		if err != nil {
			break
		}
		at := d.offset()
		h, failed := d.head("handler")
		if failed == nil {
			c.Handlers = append(c.Handlers, h.handler())
			failed = h.end()
		}
		if failed != nil {
			err = &Error{at, 0, failed}
		}
	}
	return c, err
}

// Run reads a run of claimed jobs. Its payloads are in one part.
func (d *Decoder) Run(c *Claim) (r Run, err error) {
	var part []byte
	err = d.next(func(h *head) (n, size int, frame job.Frame) {
		r, size = h.run(c)
		return r.N, size, r.Frame
	}, &part)
	if part != nil {
		r.Parts = [][]byte{part}
	}
	return r, err
}

// Completion reads the head of a section of outcomes.
func (d *Decoder) Completion() (c Completion, err error) {
	var frame job.Frame
	var size int
	at := d.offset()
	err = d.section("complete", func(h *head) (runs, jobs int) {
		c, frame, size = h.completion()
		return c.Runs, c.Jobs
	})
	if err != nil || frame == job.NoFrame {
		return c, err
	}
	framed, err := d.framed(1, size, frame)
	if err != nil {
		return c, &Error{at, 0, err}
	}
	c.All.Output, _, err = frame.Next(framed)
	if err == nil && FrameOf(c.All.OutputKind, c.All.Output) != frame {
		err = &Error{at, 0, fmt.Errorf("the output for all other jobs has no newline, so its frame must be line")}
	}
	return c, err
}

// Outcomes reads a run of outcomes.
func (d *Decoder) Outcomes(c *Completion) (r OutcomeRun, err error) {
	var outputs []byte
	err = d.next(func(h *head) (n, size int, frame job.Frame) {
		r, size = h.outcomeRun(c)
		return r.N, size, r.Frame
	}, &outputs)
	r.Outputs = outputs
	return r, err
}

// Results reads the head of a section of results.
func (d *Decoder) Results() (r Results, err error) {
	err = d.section("results", func(h *head) (runs, jobs int) {
		r = h.results()
		return r.Runs, r.Jobs
	})
	return r, err
}

// Result reads a run of results.
func (d *Decoder) Result() (r ResultRun, err error) {
	var none []byte
	err = d.next(func(h *head) (n, size int, frame job.Frame) {
		r = h.resultRun()
		return r.N, 0, job.NoFrame
	}, &none)
	return r, err
}

// End fails if not all runs were read, or if there is text after the last section.
func (d *Decoder) End() error {
	if d.run < d.runs {
		return d.fail(fmt.Errorf("%d of %d runs were read", d.run, d.runs))
	}
	if len(d.rest) > 0 {
		return &Error{d.offset(), 0, fmt.Errorf("%d bytes follow the last run", len(d.rest))}
	}
	return nil
}

func (d *Decoder) offset() int { return d.size - len(d.rest) }

func (d *Decoder) fail(err error) error { return &Error{d.offset(), d.run + 1, err} }

// section reads the head line of a section.
func (d *Decoder) section(verb string, read func(h *head) (runs, jobs int)) error {
	if d.run < d.runs {
		return d.fail(fmt.Errorf("%d of %d runs were read", d.run, d.runs))
	}
	at := d.offset()
	h, err := d.head(verb)
	if err == nil {
		d.run = 0
		d.runs, d.jobs = read(&h)
		err = h.end()
	}
	if err != nil {
		return &Error{at, 0, err}
	}
	return nil
}

// next reads a run of the section, with its framed texts.
func (d *Decoder) next(read func(h *head) (n, size int, frame job.Frame), framed *[]byte) error {
	at, number := d.offset(), d.run+1
	if d.run >= d.runs {
		return &Error{at, number, fmt.Errorf("the section has %d runs", d.runs)}
	}
	h, err := d.head("run")
	if err == nil {
		n, size, frame := read(&h)
		if err = h.end(); err == nil {
			d.run++
			d.jobs -= n
			// Each remaining run has at least one job, and the last run has all remaining jobs.
			if left := d.runs - d.run; d.jobs < left || left == 0 && d.jobs > 0 {
				err = fmt.Errorf("the runs of the section do not have as many jobs as its head line says")
			} else if frame != job.NoFrame {
				*framed, err = d.framed(n, size, frame)
			}
		}
	}
	if err != nil {
		return &Error{at, number, err}
	}
	return nil
}

// maxHeadBytes bounds a head line. The longest has an error of job.MaxErrorBytes, with three bytes for each escaped byte.
const maxHeadBytes = 256 << 10

const _ = uint(maxHeadBytes - 3*job.MaxErrorBytes - 3*job.MaxAddrBytes - 32<<10)

// head cuts the next line, and fails unless it has the verb.
func (d *Decoder) head(verb string) (h head, err error) {
	end := bytes.IndexByte(d.rest[:min(len(d.rest), maxHeadBytes+1)], '\n')
	switch {
	case end < 0 && len(d.rest) > maxHeadBytes:
		return h, fmt.Errorf("the line is longer than %d bytes", maxHeadBytes)
	case end < 0:
		return h, fmt.Errorf("the text ends where a line #:%s is expected, or within it", verb)
	}
	line := string(d.rest[:end])
	fields, ok := strings.CutPrefix(line, "#:"+verb)
	if !ok || fields != "" && fields[0] != ' ' {
		return h, fmt.Errorf("%q is not a line #:%s", shortened(line), verb)
	}
	d.rest = d.rest[end+1:]
	return head{rest: fields}, nil
}

// framed cuts n framed texts from the rest of the text.
func (d *Decoder) framed(n, size int, frame job.Frame) ([]byte, error) {
	if size > len(d.rest) {
		return nil, fmt.Errorf("field bytes=%d is more than the %d bytes that follow the line", size, len(d.rest))
	}
	cut := d.rest[:size:size]
	rest, err := frame.Skip(cut, n)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("field bytes=%d is not the length of %d texts with frame=%s", size, n, frame)
	}
	d.rest = d.rest[size:]
	return cut, nil
}
