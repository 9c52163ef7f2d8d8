package terminal

import (
	"io"
	"unicode"
	"unicode/utf8"
)

// Plain returns w, or if it is a terminal, a writer that replaces control characters and bytes that are not UTF-8, with
// which a job could change the terminal.
func Plain(w io.Writer) io.Writer {
	if !IsTerminal(w) {
		return w
	}
	return &plainText{to: w}
}

// plainText replaces control characters and bytes that are not UTF-8.
type plainText struct {
	to   io.Writer
	part []byte // the beginning of a character that the next Write continues
}

func (w *plainText) Write(p []byte) (int, error) {
	rest := append(w.part, p...)
	text := make([]byte, 0, len(rest))
	for len(rest) > 0 && (utf8.FullRune(rest) || len(rest) >= utf8.UTFMax) {
		c, size := utf8.DecodeRune(rest)
		if c == utf8.RuneError && size == 1 || unicode.IsControl(c) && c != '\n' && c != '\t' {
			c = '?'
		}
		text, rest = utf8.AppendRune(text, c), rest[size:]
	}
	w.part = append([]byte(nil), rest...)
	if _, err := w.to.Write(text); err != nil {
		return 0, err
	}
	return len(p), nil
}
