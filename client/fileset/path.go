package fileset

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxQuoted is the number of bytes of a wrong text that an error repeats.
const maxQuoted = 200

// quoted returns a text in the form for errors: in quotes, escaped, and shortened.
func quoted(text string) string {
	if len(text) > maxQuoted {
		return fmt.Sprintf("%q…", text[:maxQuoted])
	}
	return fmt.Sprintf("%q", text)
}

// CheckPath returns an error that wraps ErrPath unless a fileset can have a file or directory with this path.
//
// A path is relative and uses slashes. It is clean: no element is empty, "." or "..". It is valid UTF-8 of at most
// MaxPathBytes bytes, with elements of at most MaxNameBytes. NUL, backslashes and drives like "C:" are refused, because
// some systems do not treat them as a part of a name.
func CheckPath(path string) error {
	if why := wrongPath(path); why != "" {
		return fmt.Errorf("%w: %s %s", ErrPath, quoted(path), why)
	}
	return nil
}

// wrongPath describes the error in a path, or returns "" for a valid path.
func wrongPath(path string) string {
	switch {
	case path == "":
		return "is empty"
	case len(path) > MaxPathBytes:
		return fmt.Sprintf("has %d bytes; the maximum is %d", len(path), MaxPathBytes)
	case !utf8.ValidString(path):
		return "is not valid UTF-8"
	case path[0] == '/':
		return "is absolute"
	case strings.IndexByte(path, 0) >= 0:
		return "has a NUL"
	case strings.IndexByte(path, '\\') >= 0:
		return "has a backslash"
	case len(path) > 1 && path[1] == ':' && isLetter(path[0]):
		return "begins with a drive"
	}
	for name := range strings.SplitSeq(path, "/") {
		switch {
		case name == "":
			return "has an empty element"
		case name == "." || name == "..":
			return fmt.Sprintf("has the element %q", name)
		case len(name) > MaxNameBytes:
			return fmt.Sprintf("has an element of %d bytes; the maximum is %d", len(name), MaxNameBytes)
		}
	}
	return ""
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// Parent returns the directory of a path, or "" for the top.
func Parent(path string) string {
	return path[:max(strings.LastIndexByte(path, '/'), 0)]
}
