package script

import (
	"bytes"
	"fmt"
	"sync"
	"time"

	"github.com/daybookq/daybook/runner/task"
)

// Line is a line that a script printed.
type Line struct {
	Lang, Client string
	// Type is of the handler. If handlers share a context by an eid, it is of the one that is loaded or runs when the line
	// arrives.
	Type   string
	Job    string // the id, or "" if nobody knows which job printed it, as on stderr
	Stream string // stdout, stderr, or runner for what the runner says about the context
	Text   string // at most 8 KiB
}

const (
	tailBytes      = 8 << 10
	linesPerSecond = 1000 // of a context and a stream, in the log; the others are counted
)

// limiter bounds the lines in the log.
type limiter struct {
	second  time.Time
	lines   int // in this second
	dropped int
}

// log logs a line, or leaves it out.
func (l *limiter) log(text string, log func(text string)) {
	if now := time.Now(); now.Sub(l.second) >= time.Second {
		l.end(log)
		l.second, l.lines = now, 0
	}
	if l.lines++; l.lines > linesPerSecond {
		l.dropped++
		return
	}
	log(text)
}

// end logs how many lines were left out.
func (l *limiter) end(log func(text string)) {
	if l.dropped > 0 {
		log(fmt.Sprintf("(%d lines were left out)", l.dropped))
		l.dropped = 0
	}
}

// stream is what a process writes to one descriptor: it keeps the end, and logs the lines.
type stream struct {
	log func(text string)

	mu      sync.Mutex
	tail    []byte
	part    []byte // a line that has not ended
	limiter limiter
}

// Write takes what the process wrote.
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tail = append(s.tail, p[max(0, len(p)-tailBytes):]...)
	if len(s.tail) > 2*tailBytes {
		s.tail = append(s.tail[:0], s.tail[len(s.tail)-tailBytes:]...)
	}
	for rest := p; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		s.part = append(s.part, line[:min(len(line), maxLogBytes-len(s.part))]...)
		rest = after
		if ended {
			s.logLine()
		}
	}
	return len(p), nil
}

// logLine logs s.part.
func (s *stream) logLine() {
	if len(s.part) > 0 {
		s.limiter.log(string(bytes.ToValidUTF8(s.part, []byte("\uFFFD"))), s.log)
	}
	s.part = s.part[:0]
}

// end returns the end of what was written.
func (s *stream) end() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logLine()
	s.limiter.end(s.log)
	return task.Tail(s.tail, tailBytes)
}
