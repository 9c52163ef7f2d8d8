package program

import (
	"bytes"
	"errors"
	"sync"

	"github.com/daybookq/daybook/runner/answers"
	"github.com/daybookq/daybook/runner/task"
)

// errTooLong ends the copy of stdout when it exceeds the longest output.
var errTooLong = errors.New("the output is too long")

// output collects stdout. One goroutine writes to it. The rest reads it after the process has ended.
type output struct {
	most  int64
	chain *answers.Reader    // reads the lines that create jobs; nil if the handler creates none
	types answers.ChainTypes // types that they may create
	full  func()             // called once, when the output becomes too long

	text    []byte
	held    []byte // the beginning of a line that may create a job
	inside  bool   // inside a line that creates no job
	tooLong bool
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 && !o.tooLong {
		line, rest, complete := bytes.Cut(b, []byte("\n"))
		if complete {
			line = b[:len(line)+1]
		}
		o.part(line, complete)
		b = rest
	}
	if o.tooLong {
		return 0, errTooLong
	}
	return n, nil
}

// part takes part of a line. last reports whether it is the end of the line.
func (o *output) part(b []byte, last bool) {
	if o.chain == nil || o.inside {
		o.keep(b)
		o.inside = !last
		return
	}
	// One byte more than a line may have is enough for the reader to refuse it.
	n := min(len(b), answers.MaxLineBytes+1-len(o.held))
	o.held = append(o.held, b[:n]...)
	switch v := o.creates(o.held); {
	case v == yes && last:
		o.chain.Line(o.held)
		o.held = o.held[:0]
	case v == yes, v == open && !last && n == len(b):
		// The rest of the line has not arrived.
	default:
		o.keep(o.held)
		o.keep(b[n:])
		o.held, o.inside = o.held[:0], !last
	}
}

func (o *output) keep(b []byte) {
	if o.tooLong {
		return
	}
	if int64(len(o.text)+len(b)) > o.most {
		o.tooLong, o.text, o.held = true, nil, nil
		o.full()
		return
	}
	o.text = append(o.text, b...)
}

// end is called after the last Write.
func (o *output) end() {
	if len(o.held) == 0 {
		return
	}
	if o.creates(o.held) == yes {
		o.chain.Line(o.held)
		return
	}
	o.keep(o.held)
}

// verdict says whether a line creates a job.
type verdict int

const (
	open verdict = iota // the line is too short to decide
	yes
	no
)

// creates reports whether a line begins with J: or #J:, a type that the handler may create, and a bar.
func (o *output) creates(line []byte) verdict {
	for _, prefix := range []string{"J:", "#J:"} {
		if bytes.HasPrefix(line, []byte(prefix)) {
			if _, ok := o.types.Cut(line); ok {
				return yes
			}
			if bytes.IndexByte(line, '|') >= 0 {
				return no
			}
			return open
		}
		if len(line) < len(prefix) && prefix[:len(line)] == string(line) {
			return open
		}
	}
	return no
}

// errorBytes bounds the end of stderr that becomes an error's text.
const errorBytes = 8 << 10

// tail keeps the end of stderr. A batch reads it while the process still writes.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b[max(0, len(b)-2*errorBytes):]...)
	if len(t.text) > 4*errorBytes {
		t.text = append(t.text[:0], t.text[len(t.text)-2*errorBytes:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return task.Tail(t.text, errorBytes)
}
