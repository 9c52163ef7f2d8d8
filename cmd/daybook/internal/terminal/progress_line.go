package terminal

import (
	"fmt"
	"io"
	"sync"
)

// ProgressLine is the last line of a terminal. Lines that are written to it appear above.
type ProgressLine struct {
	mu   sync.Mutex
	to   io.Writer
	text string
}

// NewProgressLine returns the last line of the terminal w.
func NewProgressLine(w io.Writer) *ProgressLine { return &ProgressLine{to: w} }

const clearLine = "\r\x1b[K"

// Show replaces the line.
func (p *ProgressLine) Show(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = text
	fmt.Fprint(p.to, clearLine, text)
}

// Write writes lines above.
func (p *ProgressLine) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprint(p.to, clearLine)
	n, err := p.to.Write(b)
	fmt.Fprint(p.to, p.text)
	return n, err
}
