package protocol

import (
	"bufio"
	"errors"
	"io"
)

// ErrTooLong is returned by Next for a line that is longer than the limit. Next has skipped the line, so the next one
// can be read.
var ErrTooLong = errors.New("the line is too long")

// keptBytes bounds the memory that a reader keeps between lines that are longer than its buffer.
const keptBytes = 1 << 20

// Lines reads lines of bounded length.
type Lines struct {
	r    *bufio.Reader
	long []byte // a line that is longer than r's buffer
}

// NewLines returns a reader of lines.
func NewLines(r io.Reader) *Lines { return &Lines{r: bufio.NewReaderSize(r, 64<<10)} }

// Next returns the next line without its end. It returns ErrTooLong if the line is longer than limit. The line is valid
// until the next call.
func (l *Lines) Next(limit int) ([]byte, error) {
	if cap(l.long) > keptBytes {
		l.long = nil
	}
	l.long = l.long[:0]
	tooLong := false
	for {
		part, err := l.r.ReadSlice('\n')
		switch {
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return nil, err // drop an incomplete line
		case len(l.long)+len(part) > limit:
			tooLong, l.long = true, l.long[:0]
		case !tooLong && err == nil && len(l.long) == 0:
			return part[:len(part)-1], nil
		case !tooLong:
			l.long = append(l.long, part...)
		}
		if err != nil {
			continue
		}
		if tooLong {
			return nil, ErrTooLong
		}
		return l.long[:len(l.long)-1], nil
	}
}

// Pending returns how many bytes were read but not yet returned.
func (l *Lines) Pending() int { return l.r.Buffered() }
