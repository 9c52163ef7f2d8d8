package terminal

import (
	"bytes"
	"testing"
)

// TestProgressLine: lines appear above the last line of a terminal.
func TestProgressLine(t *testing.T) {
	var b bytes.Buffer
	p := ProgressLine{to: &b}
	p.Show("1 held")
	if _, err := p.Write([]byte("a line\n")); err != nil {
		t.Fatal(err)
	}
	p.Show("")
	if want := clearLine + "1 held" + clearLine + "a line\n1 held" + clearLine; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}
