package serve

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
)

// manager is the socket of a service manager.
type manager struct{ *net.UnixConn }

func newManager(t *testing.T, watchdog string) manager {
	t.Helper()
	dir := testkit.Must(os.MkdirTemp("", "nfy"))(t) // the path of a socket must be short
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	c := testkit.Must(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"}))(t)
	t.Cleanup(func() { c.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", watchdog)
	return manager{c}
}

// await returns the lines up to one that begins with want.
func (m manager) await(t *testing.T, want string) (lines []string) {
	t.Helper()
	b := make([]byte, 4096)
	for {
		testkit.NoError(t, m.SetReadDeadline(time.Now().Add(30*time.Second)))
		n, err := m.Read(b)
		testkit.NoError(t, err, "no", want, "in", lines)
		got := strings.Split(string(b[:n]), "\n")
		lines = append(lines, got...)
		if slices.ContainsFunc(got, func(line string) bool { return strings.HasPrefix(line, want) }) {
			return lines
		}
	}
}

// TestSupervision: the server sends READY=1 when the engine is ready and not before, and extends the start until then.
// It feeds the watchdog only while the engine answers, and until it has stopped.
func TestSupervision(t *testing.T) {
	m := newManager(t, "30000")
	var ready atomic.Bool
	answers := make(chan struct{}, 1_000_000)
	held := make(chan struct{})
	var hold atomic.Bool
	stats := func() (s ingest.Stats) {
		if hold.Load() {
			<-held
		}
		answers <- struct{}{}
		s.Ready = ready.Load()
		if !s.Ready {
			s.Reason = "replay"
		}
		return s
	}
	ctx, stop := context.WithCancel(t.Context())
	end := (&serverRun{log: zerolog.Nop()}).supervise(ctx, stats)
	early := m.await(t, "EXTEND_TIMEOUT_USEC=60000000")
	early = append(early, m.await(t, "WATCHDOG=1")...)
	testkit.Holds(t, early[0] == "STATUS=not ready: replay" && !slices.Contains(early, "READY=1"), "before it is ready", early)
	ready.Store(true)
	m.await(t, "READY=1")
	m.await(t, "STATUS=ready")
	m.await(t, "WATCHDOG=1")

	hold.Store(true) // earlier messages may still arrive, and then none
	b := make([]byte, 100)
	for silent := false; !silent; {
		testkit.NoError(t, m.SetReadDeadline(time.Now().Add(300*time.Millisecond)))
		_, err := m.Read(b)
		silent = err != nil
	}
	hold.Store(false)
	close(held)
	m.await(t, "WATCHDOG=1")

	stop()
	m.await(t, "STOPPING=1")
	m.await(t, "WATCHDOG=1") // it has not stopped yet
	end()
}

// TestNoSupervision: without a service manager the server never reads the figures of the engine for it.
func TestNoSupervision(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	asked := 0
	end := (&serverRun{log: zerolog.Nop()}).supervise(t.Context(), func() ingest.Stats { asked++; return ingest.Stats{} })
	end()
	testkit.Holds(t, asked <= 1, "the engine was asked", asked, "times")
}
