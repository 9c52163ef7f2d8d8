package check

import (
	"fmt"
	"strings"
)

// A Step is a command of a page, or a file that the page lets its reader write.
type Step struct {
	Line    int    // of the page
	Command string // for a shell; "" for a file
	File    string // the name of the file
	Text    string // what the file has
	Want    string // what the command prints, with … for what varies
	compare bool
}

// Steps returns what a page lets its reader do in the blocks without a note and in those with the note "tested by: TEST".
// It is for tests of other packages that follow a page in a place of their own, such as a fresh system.
func Steps(root, path, test string) ([]Step, error) {
	p, err := readPage(root, path)
	if err != nil {
		return nil, err
	}
	var steps []Step
	for _, b := range p.blocks {
		switch {
		case b.note != "" && !(b.tested && b.note == test):
		case b.title != "":
			steps = append(steps, Step{Line: b.line, File: b.title, Text: b.text})
		case b.language == "console":
			commands, err := transcript(b)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", path, b.line, err)
			}
			for _, c := range commands {
				steps = append(steps, Step{Line: c.line, Command: c.text, Want: c.want, compare: true})
			}
		case b.language == "sh":
			steps = append(steps, Step{Line: b.line, Command: b.text})
		}
	}
	return steps, nil
}

// Prints reports whether the page says that the command prints this.
func (s *Step) Prints(output string) bool {
	return !s.compare || pattern(s.Want).MatchString(oneSpace(strings.TrimSpace(output))+"\n")
}

// Compared reports whether the page says what the command prints.
func (s *Step) Compared() bool { return s.compare }
