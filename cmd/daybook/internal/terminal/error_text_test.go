package terminal

import (
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

const traceback = "Traceback (most recent call last):\n  File \"x.py\", line 2, in handle\n    raise ValueError(\"bad\")\nValueError: bad\n"

// TestShortError: a table shows the line of an error that names it.
func TestShortError(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"no such file", "no such file"},
		{"no such file\n", "no such file"},
		{"\n\nno such file\nand more", "no such file…"},
		{strings.Repeat("é", maxErrorShown), strings.Repeat("é", maxErrorShown)},
		{strings.Repeat("é", maxErrorShown+1), strings.Repeat("é", maxErrorShown) + "…"},
		{traceback, "ValueError: bad…"},
		{"log\n" + strings.ReplaceAll(traceback, "\n", "\r\n"), "ValueError: bad…"},
		{traceback + "\nDuring handling of the above exception, another exception occurred:\n\n" + strings.ReplaceAll(traceback, "bad", "worse") + "its second line", "ValueError: worse…"},
		{"Traceback (most recent call last):\n  File \"x.py\"", "Traceback (most recent call last):…"},
		{"Error: bad\n    at handle (x.js:1:1)\n    at main (x.js:9:1)", "Error: bad…"},
		{"/x.js:3\n    throw new Error('bad')\n    ^\n\nError: bad\n    at handle (/x.js:3:7)\n\nNode.js v22.0.0\n", "Error: bad…"},
		{"Exception in thread \"main\" java.lang.Error: bad\n\tat A.main(A.java:3)\nCaused by: x\n\tat B", "Exception in thread \"main\" java.lang.Error: bad…"},
		{"2026/11/23 begun\npanic: bad\n\ngoroutine 1 [running]:\nmain.main()\n\t/x.go:3 +0x1d\nexit status 2", "panic: bad…"},
		{"panic: bad\nand no stack", "panic: bad…"},
		{"PHP Fatal error:  Uncaught Exception: bad in /x.php:3\nStack trace:\n#0 {main}\n  thrown in /x.php on line 3", "PHP Fatal error:  Uncaught Exception: bad in /x.php:3…"},
	} {
		testkit.Equal(t, ShortError(c.text), c.want, c.text)
	}
}

// TestErrorLines: an error keeps its lines, and cannot change the terminal.
func TestErrorLines(t *testing.T) {
	testkit.EqualSlices(t, ErrorLines("a\r\n\tb\x1b[2J\x07\n\n\u009bc'\"é\n"), []string{"a", `    b\x1b[2J\a`, "", `\u009bc'"é`})
}
