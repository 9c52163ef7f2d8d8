package answers

import (
	"bytes"
	"slices"

	"github.com/daybookq/daybook/job/handler"
)

// ChainTypes are the types of jobs that lines of the form J: type|payload may create. A line of another type is no J line:
// a payload that is printed as it came must not be able to create jobs.
type ChainTypes []string

// Cut returns what follows the J: of a line that creates a job. ok is false for all other lines.
func (c ChainTypes) Cut(line []byte) (text []byte, ok bool) {
	text, ok = cut(line)
	if !ok {
		return nil, false
	}
	name, _, _ := bytes.Cut(text, []byte("|"))
	return text, c.has(string(bytes.TrimSpace(name)))
}

func (c ChainTypes) has(typ string) bool {
	return slices.Contains(c, handler.AnyType) || slices.Contains(c, typ)
}

// cut returns what follows the J: of a line that has this form.
func cut(line []byte) (text []byte, ok bool) {
	text, ok = bytes.CutPrefix(bytes.TrimPrefix(line, []byte("#")), []byte("J:"))
	return text, ok && bytes.IndexByte(text, '|') >= 0
}
