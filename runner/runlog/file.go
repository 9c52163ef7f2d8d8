package runlog

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/daybookq/daybook/runner/task"
)

// file keeps a run's output: all of it, or the beginning and the end. It takes bounded memory and disk, however long
// the output is.
type file struct {
	most int64 // most bytes of the file
	live *live // nil if nobody follows the log

	mu   sync.Mutex
	f    *os.File
	size int64  // bytes printed so far
	tail []byte // the end of the output
	err  error  // of writing f; after it, nothing more is written
}

// errorBytes bounds the end of a log that becomes an error's text.
const errorBytes = 8 << 10

// Write implements io.Writer. It never fails, because a full disk must not stop a container in the middle of a line.
func (l *file) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.live != nil {
		l.live.add(l.size, p)
	}
	l.tail = append(l.tail, p[max(0, len(p)-2*errorBytes):]...)
	if len(l.tail) > 4*errorBytes {
		l.tail = append(l.tail[:0], l.tail[len(l.tail)-2*errorBytes:]...)
	}
	for rest := p; len(rest) > 0; {
		at, room := l.place(l.size)
		n := min(int64(len(rest)), room)
		if l.err == nil {
			_, l.err = l.f.WriteAt(rest[:n], at)
		}
		l.size += n
		rest = rest[n:]
	}
	return len(p), nil
}

// place returns the place in the file of a byte of the log, and how many bytes fit there. The first half of the file
// has the log's beginning. The second half is a ring.
func (l *file) place(offset int64) (at, room int64) {
	if offset < l.most {
		return offset, l.most - offset
	}
	ring := l.most - l.head()
	at = l.head() + (offset-l.head())%ring
	return at, l.most - at
}

func (l *file) head() int64 { return l.most / 2 }

// read returns the log, or its two ends with a line between them. No Write may follow.
func (l *file) read() (io.ReadSeeker, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, fmt.Errorf("write the log of a run: %w", l.err)
	}
	if l.size <= l.most {
		return io.NewSectionReader(l.f, 0, l.size), nil
	}
	at, _ := l.place(l.size)
	left := fmt.Sprintf("\n[%d bytes are left out here]\n", l.size-l.most)
	return parts{
		io.NewSectionReader(l.f, 0, l.head()),
		io.NewSectionReader(strings.NewReader(left), 0, int64(len(left))),
		io.NewSectionReader(l.f, at, l.most-at),
		io.NewSectionReader(l.f, l.head(), at-l.head()),
	}.whole(), nil
}

// parts are read one after another.
type parts []*io.SectionReader

// whole returns a reader of all parts, which can be read repeatedly.
func (p parts) whole() io.ReadSeeker {
	size := int64(0)
	for _, part := range p {
		size += part.Size()
	}
	return io.NewSectionReader(p, 0, size)
}

// ReadAt implements io.ReaderAt.
func (p parts) ReadAt(b []byte, at int64) (n int, err error) {
	for _, part := range p {
		if at >= part.Size() {
			at -= part.Size()
			continue
		}
		some, err := part.ReadAt(b[n:min(int64(len(b)), int64(n)+part.Size()-at)], at)
		n += some
		if err != nil && err != io.EOF {
			return n, err
		}
		if n == len(b) {
			return n, nil
		}
		if at += int64(some); at < part.Size() {
			return n, io.ErrUnexpectedEOF // the file was truncated
		}
		at = 0
	}
	return n, io.EOF
}

// end returns the log's end as the text of an error.
func (l *file) end() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return task.Tail(l.tail, errorBytes)
}

func (l *file) bytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size
}
