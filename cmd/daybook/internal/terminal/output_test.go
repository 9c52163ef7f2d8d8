package terminal

import (
	"bytes"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestInterval: durations are rounded to about three digits.
func TestInterval(t *testing.T) {
	for ms, want := range map[int64]string{12: "12ms", 1500: "1.5s", 61_234: "1m1s", 3_600_000: "1h0m0s"} {
		testkit.Equal(t, Interval(ms), want, ms)
	}
}

// TestStatusLine: lines appear above the last line of a terminal.
func TestStatusLine(t *testing.T) {
	var b bytes.Buffer
	p := StatusLine{to: &b}
	p.Show("1 held")
	testkit.Must(p.Write([]byte("a line\n")))(t)
	p.Clear()
	testkit.Equal(t, b.String(), clearLine+"1 held"+clearLine+"a line\n1 held"+clearLine)
}
