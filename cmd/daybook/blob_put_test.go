package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
)

// breakingProxy forwards connections to a server, and breaks them.
type breakingProxy struct {
	net.Listener

	mu    sync.Mutex // guards the fields below
	to    string
	sent  int64 // bytes of all connections
	pause int64 // of sent: from then on nothing is forwarded until the connection ends; 0: never
	cuts  []int64
	conns map[net.Conn]bool
}

// newBreakingProxy returns a proxy whose first connections are cut after these numbers of bytes.
func newBreakingProxy(t *testing.T, to string, cuts ...int64) *breakingProxy {
	t.Helper()
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	p := &breakingProxy{Listener: l, to: strings.TrimPrefix(to, "http://"), cuts: cuts, conns: map[net.Conn]bool{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.forward(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		for c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		all.Wait()
	})
	return p
}

func (p *breakingProxy) forward(c net.Conn) {
	p.mu.Lock()
	to, cut := p.to, int64(1<<40)
	p.conns[c] = true
	p.mu.Unlock()
	defer c.Close()
	up, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer up.Close()
	go func() {
		io.Copy(c, up) // ends with the connection
		c.Close()
	}()
	buf := make([]byte, 64<<10)
	counted := int64(0)
	for {
		n, err := c.Read(buf)
		if n > 0 {
			p.mu.Lock()
			if counted < 1<<20 && counted+int64(n) >= 1<<20 && len(p.cuts) > 0 { // a connection that carries an upload
				cut, p.cuts = p.cuts[0], p.cuts[1:]
			}
			counted += int64(n)
			p.sent += int64(n)
			paused := p.pause > 0 && p.sent > p.pause
			p.mu.Unlock()
			if paused {
				io.Copy(io.Discard, c) // ends with the client
				return
			}
			if _, err := up.Write(buf[:n]); err != nil || counted > cut {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *breakingProxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *breakingProxy) url() string { return "http://" + p.Addr().String() }

func (p *breakingProxy) until(t *testing.T, what string, done func() bool) {
	t.Helper()
	testkit.Eventually(t, what, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return done()
	})
}

// longTestFile writes a file of which only the ends take space.
func longTestFile(t *testing.T, size int64) (name, address string) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "long")
	f := testkit.Must(os.Create(name))(t)
	defer f.Close()
	testkit.Must(f.WriteString("begins"))(t)
	testkit.Must(f.WriteAt([]byte("ends"), size-4))(t)
	h := sha256.New()
	testkit.Must(io.Copy(h, io.NewSectionReader(f, 0, size)))(t)
	return name, fmt.Sprintf("sha256:%x", h.Sum(nil))
}

// notes returns the notes of uploads.
func notes(t *testing.T) []string {
	t.Helper()
	return testkit.Must(filepath.Glob(filepath.Join(os.Getenv("XDG_STATE_HOME"), "daybook", "uploads", "*")))(t)
}

// TestLongFile: a long file is stored although connections break, and the server and the command are killed.
func TestLongFile(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	const mib = 1 << 20
	size := int64(longFile + 16*mib)
	file, address := longTestFile(t, size)
	s := serving(t, t.TempDir())

	// Two connections break, and the server is killed after the second one.
	p := newBreakingProxy(t, s.url, 20*mib, 20*mib)
	cmd := command("blob", "put", file, "--server", p.url())
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	testkit.NoError(t, cmd.Start())
	p.until(t, "two connections were cut", func() bool { return len(p.cuts) == 0 && p.sent > 42*mib })
	s.end(t, syscall.SIGKILL)
	s = serving(t, s.data)
	p.set(func() { p.to = strings.TrimPrefix(s.url, "http://") })
	testkit.NoError(t, cmd.Wait())
	testkit.MustEqual(t, out.String(), address+"\n")
	most := size + 48*mib
	testkit.Holds(t, p.sent <= most, p.sent, "bytes were sent") // a kill costs at most the bytes that were not durable
	left := notes(t)
	testkit.Holds(t, len(left) == 0, "notes are left", left)

	// The command is killed, and the same command continues. Two commands at the same time do not disturb each other.
	ok(t, "blob", "put", file, "--server", s.url, "--client", "other") // has a separate note
	p = newBreakingProxy(t, s.url)
	p.pause = 40 * mib
	args := []string{"blob", "put", file, "--server", p.url(), "--client", "acme"}
	killed := command(args...)
	testkit.NoError(t, killed.Start())
	p.until(t, "40 MiB were sent", func() bool { return p.sent > p.pause })
	if r := execute(t, "", append(args[:4:4], s.url, "--client", "acme")...); r.code != terminal.ExitOK || r.out != address+"\n" {
		t.Errorf("another server's address: %+v", r) // has a separate note, too
	}
	left = notes(t)
	testkit.MustEqual(t, len(left), 1, "notes", left)
	testkit.Equal(t, testkit.Must(os.Stat(left[0]))(t).Mode().Perm(), 0o600)
	testkit.NoError(t, killed.Process.Signal(syscall.SIGSTOP)) // else it could go on, by another connection, and end first
	p.set(func() { p.pause = 0 })
	execute(t, "", args...).ends(t, terminal.ExitOK, "another command is storing") // a second command at once
	testkit.NoError(t, killed.Process.Kill())
	killed.Wait() // an error: it was killed
	p.set(func() { p.sent = 0 })
	r := execute(t, "", args...)
	testkit.Holds(t, r.code == terminal.ExitOK && r.out == address+"\n" && strings.Contains(r.errs, "going on after "), r)
	testkit.Holds(t, p.sent <= size-30*mib, p.sent, "bytes were sent again")
	left = notes(t)
	testkit.Holds(t, len(left) == 0, "notes are left", left)
}

func TestProgressText(t *testing.T) {
	for _, c := range []struct {
		sent, size, since int64
		took              time.Duration
		want              string
	}{
		{0, 1 << 30, 0, 0, "f: 0B of 1GiB (0%)"},
		{512 << 20, 1 << 30, 512 << 20, 2 * time.Second, "f: 512MiB of 1GiB (50%), 256MiB/s, 2s left"},
		{768 << 20, 1 << 30, 256 << 20, 4 * time.Second, "f: 768MiB of 1GiB (75%), 64MiB/s, 4s left"},
	} {
		testkit.Equal(t, progressText("f", c.sent, c.size, c.since, c.took), c.want)
	}
}
