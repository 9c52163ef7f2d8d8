package bench

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// holderURL is the variable that makes a test run as its second process, the holder, which keeps connections to a server
// open. A single process would not get enough descriptors for both ends.
const holderURL = "DAYBOOK_HOLDER_URL"

// holder is the second process of a test.
type holder struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   io.Reader
	lines *bufio.Scanner
}

// startHolder runs the test again in a second process, with holderURL set to the address of a server.
func startHolder(t *testing.T, url string) *holder {
	t.Helper()
	h := &holder{t: t, cmd: exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")}
	h.cmd.Env = append(os.Environ(), holderURL+"="+url)
	h.cmd.Stderr = os.Stderr
	h.stdin = testkit.Must(h.cmd.StdinPipe())(t)
	h.out = testkit.Must(h.cmd.StdoutPipe())(t)
	testkit.NoError(t, h.cmd.Start())
	h.lines = bufio.NewScanner(h.out)
	return h
}

// next waits for a line with this beginning, and returns the rest of the line.
func (h *holder) next(beginning string) string {
	h.t.Helper()
	for h.lines.Scan() {
		if rest, ok := strings.CutPrefix(h.lines.Text(), beginning); ok {
			return rest
		}
	}
	h.t.Fatalf("the holder has ended before %q", beginning)
	return ""
}

// release ends the holder's input, so that it closes its connections.
func (h *holder) release() { h.t.Helper(); testkit.Check(h.t, h.stdin.Close()) }

// end waits until the holder has ended.
func (h *holder) end() {
	h.t.Helper()
	for h.lines.Scan() { // until it closes its output
	}
	testkit.Check(h.t, h.cmd.Wait(), "the holder")
}
