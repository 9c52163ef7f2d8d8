package runs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/internal/testkit"
)

// ended returns the usual result of a job of a batch.
func ended(seq uint64, line int) job.Job {
	return job.Job{ID: job.NewID(claimAt, seq, line), Status: job.Completed, Code: job.OK, ExitCode: 200, Why: job.Reported, CompletedAt: claimAt + 1000}
}

// batchText is a section in which each field is set.
func batchText() ([]byte, Batch, []BatchRun, BatchEnd) {
	exit := int64(-1)
	plain, rich, abandoned, cancelled := ended(7, 0), ended(7, 5), ended(8, 0), ended(8, 100)
	plain.OutputKind = job.Text
	rich.Status, rich.Code, rich.ExitCode, rich.ProcessExit, rich.Error = job.Failed, job.Fail, 404, &exit, "no,\nnot again"
	rich.OutputAddr, rich.LogAddr, rich.Meta, rich.OutputKind = "s3://x/y", "sha256:z", "colour=deep%20red,size=4", job.JSON
	abandoned.Status, abandoned.Code, abandoned.ExitCode, abandoned.Why = job.Failed, job.NoCode, 0, job.Abandoned
	cancelled.Status, cancelled.Code, cancelled.ExitCode, cancelled.Why = job.Cancelled, job.Unget, 0, job.Asked
	s := Batch{ID: job.NewID(claimAt, 7, 0), From: 2}
	list := []BatchRun{
		{Line: 2, First: plain, N: 3, Frame: job.LineFrame, Outputs: []byte("first\n\nthird\n")},
		{Line: 7, First: rich, N: 1, Frame: job.LenFrame, Outputs: job.LenFrame.Append(nil, []byte("{\n}"))},
		{Line: 8, First: abandoned, N: 100},
		{Line: 108, First: cancelled, N: 2},
	}
	e := BatchEnd{Next: 120, End: true, Status: job.BatchFailed}
	b := AppendBatch(nil, &s)
	for i := range list {
		b = AppendBatchRun(b, &list[i])
	}
	return AppendBatchEnd(b, &e), s, list, e
}

// unendedText is a section without results.
func unendedText() []byte {
	return AppendBatchEnd(AppendBatch(nil, &Batch{ID: claimID}), &BatchEnd{Status: job.BatchInProgress})
}

// readBatch reads a whole section, and writes it again.
func readBatch(from io.Reader) (again []byte, err error) {
	b := NewBatchReader(from)
	s, err := b.Head()
	if err != nil {
		return nil, err
	}
	again = AppendBatch(again, &s)
	for {
		r, more, err := b.Next()
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		n := 0
		if err := r.Each(func(i int, _ []byte) error { n++; return nil }); err != nil || n != r.N {
			return nil, fmt.Errorf("%d of %d outputs: %w", n, r.N, err)
		}
		again = AppendBatchRun(again, &r)
	}
	if _, err := b.from.Peek(1); err != io.EOF {
		return nil, &Error{b.d.size, 0, errors.New("a byte follows the end line")}
	}
	return AppendBatchEnd(again, &b.end), nil
}

// TestGoldenBatch: writing the sections gives the texts in testdata/runs, and reading those texts in pieces of any length
// gives the sections.
func TestGoldenBatch(t *testing.T) {
	text, section, list, end := batchText()
	for name, text := range map[string][]byte{"batch": text, "batch_in_progress": unendedText()} {
		path := filepath.Join("..", "..", "testdata", "runs", name+".runs")
		if *rewrite {
			testkit.NoError(t, os.WriteFile(path, text, 0o644))
		}
		testkit.DeepEqual(t, testkit.Must(os.ReadFile(path))(t), text, path, "written")
	}
	for name, from := range map[string]io.Reader{"whole": bytes.NewReader(text), "by bytes": iotest.OneByteReader(bytes.NewReader(text)), "with the end": iotest.DataErrReader(bytes.NewReader(text))} {
		b := NewBatchReader(from)
		testkit.MustEqual(t, testkit.Must(b.Head())(t), section, name)
		for i := range list {
			r, more, err := b.Next()
			testkit.MustHold(t, err == nil && more && reflect.DeepEqual(r, list[i]), name, "run", i, "is read as", r, err, "was", list[i])
		}
		_, more, err := b.Next()
		testkit.Holds(t, !more && err == nil && b.End() == end, name, "the end is read as", b.End(), err)
	}
}

// TestCutBatch: the reader notices at each byte that the text ends there, and passes on an error of the connection.
func TestCutBatch(t *testing.T) {
	text, _, _, _ := batchText()
	broken := errors.New("broken")
	for n := range text {
		_, err := readBatch(bytes.NewReader(text[:n]))
		testkit.MustEqual(t, err, io.ErrUnexpectedEOF, n, "of", len(text), "bytes")
		_, err = readBatch(io.MultiReader(bytes.NewReader(text[:n]), iotest.ErrReader(broken)))
		testkit.MustEqual(t, err, broken, n, "of", len(text), "bytes and an error")
	}
}

// TestRefusedBatch: the reader accepts one spelling of each text, and refuses contradictory texts.
func TestRefusedBatch(t *testing.T) {
	text, _, _, _ := batchText()
	for _, c := range []struct{ name, old, new, want string }{
		{"another section", "#:batch", "#:claim", "is not a line #:batch"},
		{"another version", "v=1", "v=2", "v=2 is not in 1 … 1"},
		{"no batch", " batch_id=" + job.NewID(claimAt, 7, 0).String(), "", "batch_id is missing"},
		{"no first line", " from=2", "", "from is missing"},
		{"a run before the first line", "from=2", "from=3", "line=2 is not in 3"},
		{"a run within another", "line=7", "line=4", "line=4 is not in 5"},
		{"a line that is too high", "line=108", "line=9007199254740991", "more lines than a batch can have"},
		{"no line", "#:run line=2 ", "#:run ", "line is missing"},
		{"no status", " status=failed", "", "status is missing"},
		{"a status that is no end", "status=failed", "status=active", "must be completed, failed or cancelled"},
		{"an unknown code", "code=failed", "code=maybe", `code "maybe" is not one of`},
		{"the exit code of the code", "code=ok", "code=ok exit_code=200", "exit_code=200 has its default"},
		{"an exit code of another class", "exit_code=404", "exit_code=504", "does not belong to code=failed"},
		{"an exit code without a code", "why=abandoned", "exit_code=200 why=abandoned", "does not belong to code="},
		{"no time", "completed_at=1790000001000", "completed_at=0", "completed_at=0 is not in 1"},
		{"meta out of order", "colour=deep%20red,size=4", "size=4,colour=deep%20red", "canonical"},
		{"outputs without a kind", "kind=text frame=line", "frame=line", "kind, frame and bytes"},
		{"a kind without outputs", "kind=text frame=line bytes=13", "kind=text", "kind, frame and bytes"},
		{"outputs of kind wasi", "kind=text", "kind=wasi", "not wasi"},
		{"too many outputs", "bytes=13", "bytes=67108865", "is not in 1"},
		{"bytes that cut an output", "bytes=13", "bytes=12", "payload does not end in a newline"},
		{"bytes that have another output", "bytes=13\nfirst", "bytes=19\nsecond\nfirst", "is not the length of 3 texts"},
		{"no jobs", "n=3", "n=0", "n=0 is not in 1"},
		{"more jobs than a batch has", "n=100", "n=4194305", "n=4194305 is not in 1"},
		{"an unknown field", "n=100", "n=100 x=1", "status is missing"},
		{"an unknown last field", "kind=text frame=line bytes=13", "kind=text frame=line bytes=13 x=1", `field "x=1" is unknown`},
		{"no next line", "#:end next=120 ", "#:end ", "next is missing"},
		{"a next line that was there", "next=120", "next=109", "next=109 is not in 110"},
		{"an end that is false", "end=true", "end=false", "end=false must be true"},
		{"no status of the batch", "end=true status=failed", "end=true", "status is missing"},
		{"a status that batches do not have", "end=true status=failed", "end=true status=deferred", "is not one of in_progress"},
		{"a line after the end", "next=120 end=true status=failed\n", "next=120 end=true status=failed\nx", "follows the end line"},
	} {
		t.Run(c.name, func(t *testing.T) {
			changed := bytes.Replace(text, []byte(c.old), []byte(c.new), 1)
			testkit.MustHold(t, !bytes.Equal(text, changed), c.old, "is not in the text")
			_, err := readBatch(bytes.NewReader(changed))
			at, placed := errors.AsType[*Error](err)
			testkit.MustHold(t, err != nil && placed && strings.Contains(err.Error(), c.want), "error", err, "want", c.want)
			testkit.Holds(t, bytes.HasPrefix(changed[at.Offset:], []byte("#:")) || at.Offset == len(changed)-1, "the error names byte",
				at.Offset, "which does not begin a head line")
		})
	}
	t.Run("long line", func(t *testing.T) {
		long := func(size int) ([]byte, error) {
			j := ended(7, 0)
			j.Error, j.OutputAddr, j.LogAddr = strings.Repeat(" ", size), strings.Repeat("=", job.MaxAddrBytes), strings.Repeat("%", job.MaxAddrBytes)
			b := AppendBatchRun(AppendBatch(nil, &Batch{ID: claimID}), &BatchRun{First: j, N: 1})
			b = AppendBatchRun(b, &BatchRun{Line: 1, First: ended(8, 0), N: 2})
			b = AppendBatchEnd(b, &BatchEnd{Next: 3, Status: job.BatchCompleted})
			again, err := readBatch(bytes.NewReader(b))
			if err == nil && !bytes.Equal(again, b) {
				err = fmt.Errorf("written again as %q", again)
			}
			return b, err
		}
		testkit.Must(long(job.MaxErrorBytes))(t)
		testkit.Fails(long(job.MaxErrorBytes + 1))(t)
		endless := &counted{r: io.MultiReader(strings.NewReader("#:batch"), repeated(' '))}
		_, err := readBatch(endless)
		testkit.Holds(t, err != nil && strings.Contains(err.Error(), "the line is longer than") && endless.n <= 2*maxHeadBytes, err, endless.n)
	})
	t.Run("outputs that do not come", func(t *testing.T) {
		j := ended(7, 0)
		j.OutputKind = job.Text
		head := AppendBatchRunHead(AppendBatch(nil, &Batch{ID: claimID}), &BatchRun{First: j, N: 1, Frame: job.LineFrame}, maxRunOutputs)
		b := NewBatchReader(io.MultiReader(bytes.NewReader(head), strings.NewReader("a few")))
		testkit.Must(b.Head())(t)
		_, _, err := b.Next()
		testkit.Holds(t, err == io.ErrUnexpectedEOF && cap(b.outputs) <= 1<<20, err, "with a buffer of", cap(b.outputs), "bytes")
	})
}

// counted counts the bytes that are read.
type counted struct {
	r io.Reader
	n int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

// repeated is an endless stream of one byte.
type repeated byte

func (r repeated) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(r)
	}
	return len(p), nil
}

// TestOverheadOfResults: besides its outputs, a run takes at most 200 bytes, and 2 more for each job.
func TestOverheadOfResults(t *testing.T) {
	var list []job.Job
	var lines []int64
	for i := range 1000 {
		j := ended(1<<40, 1_000_000+i)
		j.OutputKind, j.Output, j.ProcessExit = job.Bytes, []byte("0123456789"), new(int64(0))
		list, lines = append(list, j), append(lines, 3_000_000_000+int64(i))
	}
	r, size := FirstOfBatch(list, lines)
	testkit.MustHold(t, r.N == len(list) && size == 11*len(list), r.N, "jobs", size, "bytes")
	n := len(AppendBatchRunHead(nil, &r, size))
	testkit.Holds(t, n <= 200, "the head of a run has", n, "bytes")
}

// FuzzBatchRuns: results that become runs become the same results again.
func FuzzBatchRuns(f *testing.F) {
	f.Add([]byte("abc"), []byte("first\nsecond"), "error", uint8(2))
	f.Add([]byte{0, 1, 2, 3, 255, 4, 4, 4}, []byte("\n\n"), "", uint8(0))
	f.Add([]byte{32, 32, 32, 33, 32, 96, 97, 97, 127}, []byte("0123456789"), "100%,=\n", uint8(1))
	f.Fuzz(func(t *testing.T, shape, output []byte, text string, cut uint8) {
		if job.CheckText("error", text, 0, job.MaxAddrBytes) != nil {
			return
		}
		var list []job.Job
		var lines []int64
		seq, line, at := uint64(7), int64(0), 0
		for i, b := range shape {
			j := ended(seq, at)
			if b&3 != 0 {
				j.OutputKind = job.Kind(b & 3) // text, JSON or bytes
				j.Output = output[min(len(output), i*int(cut)):]
			}
			switch b >> 2 & 7 {
			case 1:
				j.Error = text
			case 2:
				j.OutputAddr = text
			case 3:
				j.LogAddr = text
			case 4:
				j.ProcessExit = new(int64(b >> 6))
			case 5:
				j.Status, j.Code, j.ExitCode, j.Why = job.Cancelled, job.NoCode, 0, job.Asked
			case 6:
				j.CompletedAt += int64(b >> 6)
			case 7:
				j.Meta = "user=" + job.Meta('a'+rune(b>>6))
			}
			if list, lines = append(list, j), append(lines, line); b >= 0xf0 { // a gap, or the next part
				line += int64(b & 15)
				at += int(b & 15)
			} else if b >= 0xe0 {
				seq, at = seq+1, -1
			}
			line, at = line+1, at+1
		}
		b := AppendBatch(nil, &Batch{ID: claimID})
		runs := 0
		for jobs, rest := list, lines; len(jobs) > 0; runs++ {
			r, size := FirstOfBatch(jobs, rest)
			before := len(b)
			b = AppendBatchRunHead(b, &r, size)
			head := len(b)
			for i := range r.N {
				b = r.Frame.Append(b, jobs[i].Output)
			}
			if len(b)-head != size {
				t.Fatalf("%d bytes of outputs, announced were %d: %q", len(b)-head, size, b[before:])
			}
			jobs, rest = jobs[r.N:], rest[r.N:]
		}
		b = AppendBatchEnd(b, &BatchEnd{Next: line, Status: job.BatchInProgress})
		from := NewBatchReader(bytes.NewReader(b))
		testkit.Must(from.Head())(t)
		got := 0
		for {
			r, more, err := from.Next()
			testkit.NoError(t, err, "in", string(b))
			if !more {
				break
			}
			testkit.NoError(t, r.Each(func(i int, output []byte) error {
				j := r.First
				if j.ID = r.ID(i); j.OutputKind != job.Nothing {
					j.Output = output
				}
				if want := list[got]; lines[got] != r.Line+int64(i) || !bytes.Equal(j.Output, want.Output) {
					t.Fatalf("result %d has line %d and output %q, was %d and %q", got, r.Line+int64(i), j.Output, lines[got], want.Output)
				}
				want := list[got]
				j.Output, want.Output = nil, nil
				testkit.MustHold(t, reflect.DeepEqual(j, want), "result", got, "is", j, "was", want)
				got++
				return nil
			}))
			runs--
		}
		testkit.MustHold(t, got == len(list) && runs == 0, got, "of", len(list), "results", runs, "runs too few")
	})
}
