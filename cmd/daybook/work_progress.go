package main

import (
	"fmt"
	"io"
	"sync"
)

// progressLine is the last line of a terminal. Lines that are written to it appear above.
type progressLine struct {
	mu   sync.Mutex
	to   io.Writer
	text string
}

const clearLine = "\r\x1b[K"

// show replaces the line.
func (p *progressLine) show(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = text
	fmt.Fprint(p.to, clearLine, text)
}

func (p *progressLine) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprint(p.to, clearLine)
	n, err := p.to.Write(b)
	fmt.Fprint(p.to, p.text)
	return n, err
}
