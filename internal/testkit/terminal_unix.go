//go:build unix

package testkit

import (
	"bufio"
	"os"
	"strings"
	"testing"

	"github.com/creack/pty"
)

// Terminal returns a terminal, and a function that returns the next line on its screen.
func Terminal(t testing.TB) (tty *os.File, line func() string) {
	t.Helper()
	screen, tty, err := pty.Open()
	if err != nil {
		t.Skipf("there are no pseudo-terminals: %v", err)
	}
	t.Cleanup(func() { tty.Close(); screen.Close() })
	r := bufio.NewReader(screen)
	return tty, func() string {
		t.Helper()
		text, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimRight(text, "\r\n")
	}
}
