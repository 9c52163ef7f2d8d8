package task

import "strings"

// MaxErrorBytes is the longest text of an error that the server stores.
const MaxErrorBytes = 64 << 10

// Text returns an error's text as valid UTF-8, cut to MaxErrorBytes.
func Text(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) > MaxErrorBytes {
		s = strings.ToValidUTF8(s[:MaxErrorBytes], "")
	}
	return s
}

// Tail returns the last bytes of an error's text, if possible from the beginning of a line.
func Tail(b []byte, most int) string {
	s := string(b)
	if len(s) > most {
		s = s[len(s)-most:]
		if _, rest, ok := strings.Cut(s, "\n"); ok && rest != "" {
			s = rest
		}
	}
	return Text(strings.TrimRight(s, "\n"))
}
