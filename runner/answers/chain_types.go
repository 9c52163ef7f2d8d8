package answers

import (
	"bytes"
	"slices"

	"github.com/daybookq/daybook/job/handler"
)

// ChainTypes are the types of jobs that lines J: type|payload may create. A line with another type creates nothing, so
// that a handler that prints a payload verbatim does not let the payload create jobs.
type ChainTypes []string

// Cut returns the part after J: of a line that creates a job. ok is false for all other lines.
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

// cut returns the part after J: of a line of this form, whatever its type.
func cut(line []byte) (text []byte, ok bool) {
	text, ok = bytes.CutPrefix(bytes.TrimPrefix(line, []byte("#")), []byte("J:"))
	return text, ok && bytes.IndexByte(text, '|') >= 0
}
