package testkit

import "sync"

// Log keeps the end of a process's output, for the report of a failure.
type Log struct {
	mu   sync.Mutex
	text []byte
}

// logBytes is how much a Log keeps.
const logBytes = 16 << 10

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if extra := len(l.text) - logBytes; extra > 0 {
		l.text = append(l.text[:0], l.text[extra:]...)
	}
	return len(p), nil
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}
