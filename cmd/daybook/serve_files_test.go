package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
)

// withFiles makes a command run with a limit of open files.
func withFiles(t *testing.T, cmd *exec.Cmd, limit int) *exec.Cmd {
	t.Helper()
	limited := exec.Command("/bin/sh", append([]string{"-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, limit)}, cmd.Args...)...)
	limited.Env = cmd.Env
	return limited
}

func TestTooFewFiles(t *testing.T) {
	cmd := withFiles(t, command("serve", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--init"), 100)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	testkit.Failed(t, cmd.Run())
	testkit.Contains(t, errs.String(), "may open 100 files")
}

// TestConnectionsLeaveFilesToTheJournal: with few file descriptors and many more connections, established clients can
// still post, and the journal and the store can open their files.
func TestConnectionsLeaveFilesToTheJournal(t *testing.T) {
	t.Parallel()
	const limit, flood = 256, 600
	s := servingAs(t, t.TempDir(), func(cmd *exec.Cmd) *exec.Cmd { return withFiles(t, cmd, limit) })
	address := strings.TrimPrefix(s.url, "http://")
	established := testkit.Must(net.Dial("tcp", address))(t)
	defer established.Close()
	in := bufio.NewReader(established)
	body := strings.Repeat(strings.Repeat("x", 1023)+"\n", 4<<10) // 4 MiB
	post := func() {
		t.Helper()
		_, err := fmt.Fprintf(established, "POST /add HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		testkit.NoError(t, err, s.log)
		resp, err := http.ReadResponse(in, nil)
		testkit.NoError(t, err, s.log)
		testkit.MustEqual(t, resp.StatusCode, http.StatusCreated, testkit.Must(io.ReadAll(resp.Body))(t), s.log)
	}
	post()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	conns := make(chan net.Conn, flood)
	for i := range flood {
		go func() { // some connections are silent, others announce a body
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
			if err == nil && i%2 == 0 {
				_, err = io.WriteString(c, "POST /add HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8388608\r\n\r\n")
			}
			if err != nil {
				c = nil
			}
			conns <- c
		}()
	}
	time.AfterFunc(5*time.Second, cancel) // ends the dialling, since the backlog has a bound
	for range flood {
		if c := <-conns; c != nil {
			defer c.Close()
		}
	}
	for range 40 { // 160 MiB: more than one segment and one memtable
		post()
	}
	opened, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.Process.Pid))
	if err != nil {
		t.Skipf("no /proc to count descriptors in: %v", err)
	}
	testkit.Holds(t, len(opened) < limit, len(opened), "of", limit, "descriptors are open")
	testkit.Equal(t, strings.TrimSpace(string(testkit.Must(os.ReadFile(filepath.Join(s.data, "address")))(t))), address)
	s.end(t, syscall.SIGKILL) // after that the log is complete
	testkit.Lacks(t, s.log.String(), "too many open files")
}
