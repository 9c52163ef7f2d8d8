package input

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

// Open opens the file that is the only argument; without one, or with -, it returns standard input. The caller
// calls end.
func Open(cmd *cobra.Command, args []string) (in io.Reader, end func(), err error) {
	if len(args) == 0 || args[0] == "-" {
		return cmd.InOrStdin(), func() {}, nil
	}
	file, err := os.Open(args[0])
	if err != nil {
		return nil, nil, err
	}
	return file, func() { file.Close() }, nil // the file is only read, so the error does not matter
}

// Size returns the size of a file, or 0 if the input is not a file.
func Size(in io.Reader) int64 {
	if !IsFile(in) {
		return 0
	}
	info, err := in.(*os.File).Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

// ReadAll reads a file, or with - standard input. It reads at most limit+1 bytes of standard input, so the caller can see
// that it is too long.
func ReadAll(cmd *cobra.Command, name string, limit int64) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(io.LimitReader(Reader{cmd.InOrStdin()}, limit+1))
	}
	return os.ReadFile(name)
}

// Error is an error of reading the input.
type Error struct{ Err error }

func (e *Error) Error() string { return "read input: " + e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Reader marks the errors of the input, so that the command ends with another exit code than after an error of the server.
type Reader struct{ io.Reader }

func (r Reader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &Error{err}
	}
	return n, err
}

// IsFile reports whether the input is a file, which can be read again.
func IsFile(in io.Reader) bool {
	f, ok := in.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

// BufferBytes is how much of the input is read at once.
const BufferBytes = 64 << 10

// StoppableReader reads an input that may be silent for long. Read fails when ctx ends.
type StoppableReader struct {
	Ctx    context.Context
	In     io.Reader
	buffer [BufferBytes]byte // the input is read into it, since a Read that failed must not write to its argument later
	done   chan readResult   // the result of the outstanding read
}

type readResult struct {
	n   int
	err error
}

func (r *StoppableReader) Read(p []byte) (int, error) {
	if r.done == nil {
		r.done = make(chan readResult, 1)
	}
	if r.Ctx.Err() != nil {
		return 0, terminal.ErrInterrupted
	}
	size := min(len(p), len(r.buffer))
	go func() {
		n, err := r.In.Read(r.buffer[:size])
		r.done <- readResult{n, err}
	}()
	select {
	case result := <-r.done:
		return copy(p, r.buffer[:result.n]), result.err
	case <-r.Ctx.Done():
		return 0, terminal.ErrInterrupted
	}
}

// Jobs turns the lines of an input that are not empty into jobs. If the input cannot be read, stop keeps the batch
// from being closed as if it had all lines.
type Jobs struct {
	In          *bufio.Reader
	Stop        func()
	Most        int // bytes of a line
	PayloadKind client.Kind
	StripCR     bool
	Skipped     int // lines of the input before the first one read

	Attributes client.Attributes
	Err        error
}

// MaxStoredLine is the limit of a line that is stored by address: the default of Chunks.MaxBytes.
const MaxStoredLine = 64 << 20

func (l *Jobs) fail(err error) {
	l.Err = err
	l.Stop()
}

// All returns the jobs. When it ends, Err is the reason if that is not the end of the input.
func (l *Jobs) All() iter.Seq[client.NewJob] {
	return func(yield func(client.NewJob) bool) {
		for number := l.Skipped + 1; ; number++ {
			line, err := l.next()
			if l.StripCR {
				line = bytes.TrimSuffix(line, []byte{'\r'})
			}
			if len(line) > l.Most {
				l.fail(fmt.Errorf("line %d has more than %d bytes, which is the maximum of a payload", number, l.Most))
				return
			}
			if len(line) > 0 && !yield(client.NewJob{Payload: line, Kind: l.PayloadKind, Attributes: l.Attributes}) {
				return
			}
			if err != nil {
				if err != io.EOF {
					l.fail(err)
				}
				return
			}
		}
	}
}

// next returns the next line without its newline, or the beginning of a line that is longer than a payload may be.
func (l *Jobs) next() (line []byte, err error) {
	for len(line) <= l.Most {
		var part []byte
		part, err = l.In.ReadSlice('\n')
		if line = append(line, part...); err != bufio.ErrBufferFull {
			break
		}
	}
	return bytes.TrimSuffix(line, []byte{'\n'}), err
}
