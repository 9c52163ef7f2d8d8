package runs

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/daybookq/daybook/job"
)

// A section of the results of a batch is written while jobs end. So its head does not say how many runs follow. Instead,
// its last line is #:end:
//
//	#:batch v=1 batch_id=… from=0
//	#:run line=0 job_id=… n=2 status=completed … kind=text frame=line bytes=4
//	a
//	b
//	#:end next=2 status=in_progress

// Batch is the head of a section of the results of a batch.
type Batch struct {
	ID   job.ID
	From int64 // the first line of the results
}

// BatchRun is the results of neighbouring jobs of a batch. Their ids and lines count up, and they differ only in their
// outputs. Results of purged jobs are missing, so there may be a gap between the lines of two runs.
type BatchRun struct {
	Line int64 // of the first job in the batch
	// First is the result of the first job without its output: ID, Status, Code, ExitCode, Result, Error, Why,
	// CompletedAt and Meta.
	First   job.Job
	N       int
	Frame   job.Frame // NoFrame: no outputs
	Outputs []byte    // framed
}

// BatchEnd is the end of a section. A text without it was cut off.
type BatchEnd struct {
	Next   int64 // the line to request next
	End    bool  // no result follows, now or later
	Status job.BatchStatus
}

const (
	// maxBatchLine bounds the lines of a batch, as for the parameter of the request.
	maxBatchLine = 1 << 53
	// maxRunOutputs bounds the outputs of a run. A server's page has at most job.MaxClaimBytes, or one longer output.
	maxRunOutputs = 64 << 20
)

const _ = uint(maxRunOutputs - 2*job.MaxClaimBytes - job.MaxOutputBytes)

// AppendBatch appends the head of a section. The caller then appends the runs and the end.
func AppendBatch(b []byte, s *Batch) []byte {
	w := writer(b)
	w.verb("batch")
	w.int("v", version)
	w.id("batch_id", s.ID, job.ID{})
	w.int("from", s.From)
	w.end()
	return w
}

// AppendBatchEnd appends the end of a section.
func AppendBatchEnd(b []byte, e *BatchEnd) []byte {
	w := writer(b)
	w.verb("end")
	w.int("next", e.Next)
	if e.End {
		w.text("end", isEnd)
	}
	w.text("status", e.Status.String())
	w.end()
	return w
}

const isEnd = "true"

// FirstOfBatch returns the first run of a list of results, without its outputs, and the length of its framed outputs. The
// caller appends the output of each of the r.N jobs with r.Frame.
func FirstOfBatch(list []job.Job, lines []int64) (r BatchRun, size int) {
	r = BatchRun{Line: lines[0], First: list[0], Frame: FrameOf(list[0].OutputKind, list[0].Output)}
	r.First.Output = nil
	for r.N = 1; r.N < len(list) && r.follows(&list[r.N], lines[r.N]); r.N++ {
		if r.Frame == job.LineFrame { // the frame must fit all outputs
			r.Frame = FrameOf(list[r.N].OutputKind, list[r.N].Output)
		}
	}
	for i := range list[:r.N] {
		size += r.Frame.Size(len(list[i].Output))
	}
	return r, size
}

// follows reports whether the result of a job can continue r.
func (r *BatchRun) follows(j *job.Job, line int64) bool {
	f := &r.First
	return line == r.Line+int64(r.N) && f.ID.Line()+r.N < job.MaxLines && j.ID == r.ID(r.N) &&
		f.Status == j.Status && f.Code == j.Code && f.ExitCode == j.ExitCode && equal(f.ProcessExit, j.ProcessExit) && f.Error == j.Error &&
		f.OutputAddr == j.OutputAddr && f.OutputAddrKind == j.OutputAddrKind && f.LogAddr == j.LogAddr && f.OutputKind == j.OutputKind && f.Why == j.Why && f.CompletedAt == j.CompletedAt && f.Meta == j.Meta
}

func equal(a, b *int64) bool { return a == b || a != nil && b != nil && *a == *b }

// ID returns the id of job i of the run, counted from 0.
func (r *BatchRun) ID(i int) job.ID { return r.First.ID.WithLine(r.First.ID.Line() + i) }

// Each calls visit with the output of each job until visit returns an error. The output shares memory with r.
func (r *BatchRun) Each(visit func(i int, output []byte) error) (err error) {
	rest := r.Outputs
	for i := range r.N {
		var output []byte
		if output, rest, err = r.Frame.Next(rest); err == nil {
			err = visit(i, output)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// AppendBatchRun appends a run with its outputs.
func AppendBatchRun(b []byte, r *BatchRun) []byte {
	return append(AppendBatchRunHead(b, r, len(r.Outputs)), r.Outputs...)
}

// AppendBatchRunHead appends the head of a run. The caller then appends the framed outputs, which have size bytes.
func AppendBatchRunHead(b []byte, r *BatchRun, size int) []byte {
	j := &r.First
	w := writer(b)
	w.verb("run")
	w.int("line", r.Line)
	w.id("job_id", j.ID, job.ID{})
	w.int("n", int64(r.N))
	w.text("status", j.Status.String())
	w.text("code", j.Code.String())
	w.set("exit_code", int64(j.ExitCode), int64(j.Code.DefaultExitCode()))
	if j.ProcessExit != nil {
		w.int("process_exit", *j.ProcessExit)
	}
	w.text("error", j.Error)
	w.addr(&j.Result)
	w.text("log_addr", j.LogAddr)
	w.text("why", j.Why.String())
	w.set("completed_at", j.CompletedAt, 0)
	if j.Meta != "" { // it is in its text form already
		w.key("meta")
		w = append(w, j.Meta...)
	}
	if r.Frame != job.NoFrame {
		w.kind(j.OutputKind, r.Frame)
		w.int("bytes", int64(size))
	}
	w.end()
	return w
}

// BatchReader reads a section of the results of a batch while it arrives. It holds one run in memory. Like a Decoder, it
// accepts exactly the texts that the Append functions write. It returns an *Error for an invalid text,
// io.ErrUnexpectedEOF if the text ends before its end line, and the errors of the underlying reader.
type BatchReader struct {
	from    *bufio.Reader
	d       Decoder // of the current part; its size is the number of bytes read so far
	line    int     // length of the last head line
	long    []byte  // a head line that does not fit the buffer of from
	outputs []byte
	next    int64 // the lowest line at which a run may begin
	end     BatchEnd
}

// NewBatchReader returns a reader of a section. The caller reads its Head first.
func NewBatchReader(from io.Reader) *BatchReader {
	return &BatchReader{from: bufio.NewReaderSize(from, 64<<10)}
}

// Head reads the head of the section.
func (b *BatchReader) Head() (s Batch, err error) {
	if err := b.readLine(); err != nil {
		return s, err
	}
	h, err := b.d.head("batch")
	if err == nil {
		s = h.batchResults()
		err = h.end()
	}
	b.next = s.From
	return s, b.failed(0, err)
}

// Next returns the next run, which is valid until the next call. more is false at the end of the section.
func (b *BatchReader) Next() (r BatchRun, more bool, err error) {
	if err := b.readLine(); err != nil {
		return r, false, err
	}
	if b.d.Is("end") {
		h, err := b.d.head("end")
		if err == nil {
			b.end = h.batchEnd(b.next)
			err = h.end()
		}
		return r, false, b.failed(0, err)
	}
	b.d.run++
	h, err := b.d.head("run")
	size := 0
	if err == nil {
		r, size = h.batchRun(b.next)
		err = h.end()
	}
	if err != nil {
		return r, false, b.failed(b.d.run, err)
	}
	b.next = r.Line + int64(r.N)
	if r.Frame == job.NoFrame {
		return r, true, nil
	}
	at := b.d.size - b.line
	if err := b.readOutputs(size); err != nil {
		return r, false, err
	}
	if r.Outputs, err = b.d.framed(r.N, size, r.Frame); err != nil {
		return r, false, &Error{at, b.d.run, err}
	}
	return r, true, nil
}

// End returns the end of the section. It is valid once Next has returned more = false.
func (b *BatchReader) End() BatchEnd { return b.end }

// failed returns err as an *Error at the last head line, or nil.
func (b *BatchReader) failed(run int, err error) error {
	if err == nil {
		return nil
	}
	return &Error{b.d.size - b.line, run, err}
}

// readLine reads a head line for the decoder. It stops reading a line once it is known to be too long.
func (b *BatchReader) readLine() error {
	line, err := b.from.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		b.long = b.long[:0]
		for err == bufio.ErrBufferFull && len(b.long)+len(line) <= maxHeadBytes {
			b.long = append(b.long, line...)
			line, err = b.from.ReadSlice('\n')
		}
		b.long = append(b.long, line...)
		line = b.long
	}
	b.line = len(line)
	b.d.rest, b.d.size = line, b.d.size+len(line)
	switch {
	case err == nil || err == bufio.ErrBufferFull:
		return nil // the decoder refuses a line without a newline
	case err == io.EOF:
		return io.ErrUnexpectedEOF
	}
	return err
}

// readOutputs reads the framed outputs of a run for the decoder. The buffer grows as bytes arrive, so a wrong, high value
// of the field bytes costs no memory.
func (b *BatchReader) readOutputs(size int) error {
	got := b.outputs[:0]
	for len(got) < size {
		got = slices.Grow(got, min(size-len(got), max(64<<10, len(got))))
		n, err := io.ReadFull(b.from, got[len(got):min(size, cap(got))])
		got = got[:len(got)+n]
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
	b.outputs = got
	b.d.rest, b.d.size = got, b.d.size+size
	return nil
}

func (h *head) batchResults() (s Batch) {
	h.version()
	s.ID = h.id("batch_id", job.ID{})
	h.must("batch_id", !s.ID.IsZero())
	s.From = h.int("from", 0, maxBatchLine)
	return s
}

func (h *head) batchEnd(next int64) (e BatchEnd) {
	e.Next = h.int("next", next, maxBatchLine)
	if raw, ok := h.raw("end"); ok {
		if e.End = true; raw != isEnd {
			h.fail("field end=%s must be %s", shortened(raw), isEnd)
		}
	}
	e.Status = named(h, "status", batchStatus)
	h.must("status", e.Status != 0)
	return e
}

// batchRun reads the head of a run, whose first line must be at least next, and returns the length of its outputs too.
func (h *head) batchRun(next int64) (r BatchRun, size int) {
	j := &r.First
	r.Line = h.int("line", next, maxBatchLine)
	j.ID = h.jobID()
	r.N = h.count(j.ID)
	if r.Line+int64(r.N) > maxBatchLine {
		h.fail("the run has more lines than a batch can have")
	}
	j.Status = named(h, "status", endStatus)
	h.must("status", j.Status != 0)
	j.Code = named(h, "code", anyCode)
	j.ExitCode = int(h.set("exit_code", 100, 599, int64(j.Code.DefaultExitCode())))
	if j.ExitCode != 0 && job.ExitCodeClass(j.ExitCode) != j.Code {
		h.fail("field exit_code=%d does not belong to code=%s", j.ExitCode, j.Code)
	}
	if n, ok := h.optional("process_exit", math.MinInt32, math.MaxUint32); ok {
		j.ProcessExit = &n
	}
	j.Error = h.text("error", job.MaxErrorBytes)
	h.addr(&j.Result)
	j.LogAddr = h.text("log_addr", job.MaxAddrBytes)
	j.Why = named(h, "why", job.ParseWhy)
	j.CompletedAt = h.set("completed_at", 1, maxShownMs, 0)
	j.Meta = named(h, "meta", func(_, raw string) (job.Meta, error) { return job.ParseMeta(raw) })
	j.OutputKind, r.Frame = h.kind()
	if r.Frame != job.NoFrame {
		size = int(h.int("bytes", 1, maxRunOutputs))
	}
	switch {
	case (j.OutputKind == job.Nothing) != (r.Frame == job.NoFrame):
		h.fail("outputs have the fields kind, frame and bytes")
	case j.OutputKind == job.WASI:
		h.fail("field kind must be text, json or bytes for outputs, not %s", j.OutputKind)
	}
	return r, size
}

// endStatus parses the status of an ended job.
func endStatus(field, name string) (job.Status, error) {
	s, err := job.ParseStatus(name)
	if err != nil || !s.Terminal() {
		return 0, fmt.Errorf("field %s must be completed, failed or cancelled, not %q", field, shortened(name))
	}
	return s, nil
}

// anyCode parses the code of an ended job. A cancelled job may have the code of an earlier run.
func anyCode(field, name string) (job.Code, error) {
	code, err := job.ParseCode(name)
	if err != nil {
		err = fmt.Errorf("field %s: %w", field, err)
	}
	return code, err
}

func batchStatus(field, name string) (job.BatchStatus, error) {
	s, err := job.ParseBatchStatus(name)
	if err != nil {
		err = fmt.Errorf("field %s: %w", field, err)
	}
	return s, err
}
