package terminal

import (
	"bytes"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestPlainText: a job cannot send commands to the terminal that shows its log.
func TestPlainText(t *testing.T) {
	var b bytes.Buffer
	in := "a\tb\n\x1b[2Jé\x7f\r\u009b1m\x9b€"
	w := &plainText{to: &b}
	for i := range len(in) { // also within characters
		testkit.Equal(t, testkit.Must(w.Write([]byte(in[i:i+1])))(t), 1)
	}
	testkit.Equal(t, b.String(), "a\tb\n?[2Jé???1m?€")
}
