package script

import (
	"bytes"
	"unicode/utf8"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/runner/answers"
)

// maxLogBytes bounds the part of a printed line that is logged.
const maxLogBytes = 8 << 10

// prints reads the text that a job prints: lines that create jobs, and lines for the log.
type prints struct {
	chain   answers.ChainTypes
	log     func(line string)
	part    []byte // an incomplete line
	tooLong bool   // the end of part was dropped
	broken  bool   // the text had lone surrogates, which were replaced by replacement characters
	jobs    answers.JobLines
}

// write reads printed text.
func (p *prints) write(text string) {
	for len(text) > 0 {
		end := 0
		for end < len(text) && text[end] != '\n' {
			end++
		}
		p.keep(text[:end])
		if end == len(text) {
			return
		}
		p.endLine()
		text = text[end+1:]
	}
}

// keep keeps part of a line, up to the length of the longest line that can create a job.
func (p *prints) keep(text string) {
	room := answers.MaxLineBytes - len(p.part)
	if len(text) > room {
		p.tooLong, text = true, text[:room]
	}
	p.part = append(p.part, text...)
}

func (p *prints) endLine() {
	line := p.part
	if !p.create(line) && len(line) > 0 && p.log != nil {
		p.log(string(bytes.ToValidUTF8(line[:min(len(line), maxLogBytes)], []byte("\uFFFD"))))
	}
	p.part, p.tooLong = p.part[:0], false
}

// finish ends the last line. It returns the jobs to create, or why the J: lines are invalid.
func (p *prints) finish() (then []client.NewJob, bad string) {
	if len(p.part) > 0 {
		p.endLine()
	}
	if cap(p.part) > maxLogBytes {
		p.part = nil
	}
	p.broken = false
	return p.jobs.Take()
}

// create reports whether a line has the form "J: type|payload" with a listed type, and records the job.
func (p *prints) create(line []byte) bool {
	text, ok := p.chain.Cut(line)
	switch {
	case ok && p.broken && bytes.ContainsRune(text, utf8.RuneError):
		p.jobs.Refuse("a J: line has a lone surrogate, which UTF-8 does not have")
	case ok:
		p.jobs.Add(bytes.TrimSuffix(text, []byte("\r")), p.tooLong)
	}
	return ok
}

// cutJobs removes the lines that create jobs from an output.
func (p *prints) cutJobs(output []byte) []byte {
	if !bytes.Contains(output, []byte("J:")) {
		return output
	}
	var rest []byte
	for line := range bytes.Lines(output) {
		if !p.create(bytes.TrimSuffix(line, []byte("\n"))) {
			rest = append(rest, line...)
		}
	}
	return rest
}
