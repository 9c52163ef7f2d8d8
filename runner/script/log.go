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
	// Type is the handler's type. If handlers share a context by an eid, it is the type that loads or runs when the
	// line arrives.
	Type   string
	Job    string // the id, or "" if it is unknown which job printed it, as for stderr
	Stream string // stdout, stderr, or runner for the runner's messages about the context
	Text   string // at most 8 KiB
}

const (
	tailBytes      = 8 << 10
	linesPerSecond = 1000 // logged per context and stream; further lines are only counted
)

// limiter bounds the lines in the log.
type limiter struct {
	second  time.Time
	lines   int // in this second
	dropped int
}

// log logs a line, unless this second's limit is reached.
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

// stream receives a process's stdout or stderr. It keeps the end, and logs each line.
type stream struct {
	log func(text string)

	mu      sync.Mutex
	tail    []byte
	part    []byte // an incomplete line
	limiter limiter
}

// Write implements io.Writer.
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

// end logs the incomplete line, and returns the end of the text.
func (s *stream) end() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logLine()
	s.limiter.end(s.log)
	return task.Tail(s.tail, tailBytes)
}
