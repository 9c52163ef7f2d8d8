package terminal

import (
	"bytes"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestProgressLine: lines appear above the last line of a terminal.
func TestProgressLine(t *testing.T) {
	var b bytes.Buffer
	p := ProgressLine{to: &b}
	p.Show("1 held")
	testkit.Must(p.Write([]byte("a line\n")))(t)
	p.Show("")
	if want := clearLine + "1 held" + clearLine + "a line\n1 held" + clearLine; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}
