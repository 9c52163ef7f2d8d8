package check

import (
	"fmt"
	"strings"
)

// A Step is a command of a page, or a file that the page asks its reader to write.
type Step struct {
	Line    int    // of the page
	Command string // for a shell; "" for a file
	File    string // the name of the file
	Text    string // the file's content
	Want    string // the command's output, with … for parts that vary
	compare bool
}

// Steps returns the steps of a page, from the blocks without a note and the blocks with the note "tested by: TEST". It is
// for tests of other packages that follow a page elsewhere, such as on a fresh system.
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

// Compared reports whether the page shows the command's output.
func (s *Step) Compared() bool { return s.compare }
