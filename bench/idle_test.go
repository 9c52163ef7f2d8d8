package bench

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/load/works"
	"github.com/daybookq/daybook/internal/testkit"
)

const idleConnections = 9000

// TestIdleConnections: nine thousand open connections that send nothing do not disturb the server's work.
func TestIdleConnections(t *testing.T) {
	if url := os.Getenv(holderURL); url != "" {
		holdIdle(t, url)
		return
	}
	s := serve(t)
	h := startHolder(t, s.URL())
	h.next("held")
	l := NewLoad(s.URL(), 1)
	defer l.Close()
	testkit.Check(t, l.Add(t.Context(), works.Lines(1000, 100)))
	claim := testkit.Must(l.Claim(t.Context(), 100))(t)
	testkit.Check(t, l.Complete(t.Context(), claim), "claim", claim)
	h.release()
	h.end()
}

// holdIdle runs in the second process of TestIdleConnections. It opens connections, prints a line, and keeps them open
// until its input ends.
func holdIdle(t *testing.T, url string) {
	address := strings.TrimPrefix(url, "http://")
	var open []net.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	for len(open) < idleConnections {
		c, err := net.Dial("tcp", address)
		testkit.NoError(t, err, "connection", len(open)+1)
		open = append(open, c)
	}
	fmt.Println("held")
	testkit.Must(io.Copy(io.Discard, os.Stdin))(t)
}
