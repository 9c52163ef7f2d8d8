package program

import (
	"bytes"
	"errors"
	"sync"

	"github.com/daybookq/daybook/runner/answers"
	"github.com/daybookq/daybook/runner/task"
)

// errTooLong ends the copy of a stdout that is longer than an output may be.
var errTooLong = errors.New("the output is too long")

// output collects stdout. It is written by one goroutine, and read after the end of the process.
type output struct {
	most  int64
	chain *answers.Reader    // takes the lines that create jobs; nil if none may
	types answers.ChainTypes // that they may create
	full  func()             // called once when the output is too long

	text    []byte
	held    []byte // the beginning of a line that may be one that creates a job
	inside  bool   // of a line that is none
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

// part takes a part of a line.
func (o *output) part(b []byte, last bool) {
	if o.chain == nil || o.inside {
		o.keep(b)
		o.inside = !last
		return
	}
	// The reader refuses a line of one byte more than it may have.
	n := min(len(b), answers.MaxLineBytes+1-len(o.held))
	o.held = append(o.held, b[:n]...)
	switch v := o.creates(o.held); {
	case v == yes && last:
		o.chain.Line(o.held)
		o.held = o.held[:0]
	case v == yes, v == open && !last && n == len(b):
		// More of the line comes.
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

// verdict is whether a line creates a job.
type verdict int

const (
	open verdict = iota // more of the line will say so
	yes
	no
)

// creates reports whether a line begins with J: or #J: and the name of a type that it may create a job of, and has a bar.
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

// errorBytes is how much of the end of stderr is the text of an error.
const errorBytes = 8 << 10

// tail keeps the end of stderr. A batch reads it while the process writes.
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
