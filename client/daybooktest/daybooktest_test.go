package daybooktest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/internal/testkit"
)

// TestKill: a job that was acknowledged is still there after the server was killed and started again at the same
// address.
func TestKill(t *testing.T) {
	s := Start(t, "--max-attempts", "7")
	made := testkit.Must(s.Client.Create(t.Context(), client.TextJob("mail", "hello")))(t)
	s.Kill()
	s.Kill() // the second call does nothing
	s.Restart()
	kept := testkit.Must(s.Client.Job(t.Context(), made.ID))(t)
	testkit.Holds(t, string(kept.Payload) == "hello" && kept.MaxAttempts == 7, "after a kill", kept)
	s.Stop()
	s.Stop()
	testkit.Fails(net.Dial("tcp", strings.TrimPrefix(s.URL, "http://")))(t)
}

// TestFreeAddress: the addresses differ, can be listened on, and have ports that no outgoing connection takes.
func TestFreeAddress(t *testing.T) {
	seen := map[string]bool{}
	for range 20 {
		address := testkit.Must(FreeAddress())(t)
		l := testkit.Must(net.Listen("tcp", address))(t)
		defer l.Close()
		port := l.Addr().(*net.TCPAddr).Port
		testkit.Holds(t, port >= firstPort && port < firstPort+ports && !seen[address], address, "seen", seen)
		seen[address] = true
	}
	// The test listens on the next port in turn; it does not matter if another process does so already.
	next := fmt.Sprintf("127.0.0.1:%d", firstPort+(tried.port+1)%ports)
	if l, err := net.Listen("tcp", next); err == nil {
		defer l.Close()
	}
	address := testkit.Must(FreeAddress())(t)
	testkit.Holds(t, address != next, address, "although a process listens on", next)
}

// TestBinary: the binary is the one that DAYBOOK_BINARY names, the tool, or the one in PATH. An error names all three.
func TestBinary(t *testing.T) {
	find := func(want string) { t.Helper(); testkit.Equal(t, testkit.Must(findBinary())(t), want) }
	t.Setenv("DAYBOOK_BINARY", "/named/daybook")
	find("/named/daybook")
	t.Setenv("DAYBOOK_BINARY", "")
	dir := t.TempDir()
	t.Chdir(dir) // a directory outside of any module
	inPath := filepath.Join(dir, "daybook")
	testkit.NoError(t, os.WriteFile(inPath, []byte("#!/bin/sh\n"), 0o755))
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	find(inPath)
	t.Setenv("PATH", dir) // without the go command
	find(inPath)
	t.Setenv("PATH", t.TempDir())
	_, err := findBinary()
	for _, way := range []string{"DAYBOOK_BINARY", "PATH", "go get -tool"} {
		testkit.Holds(t, err != nil && strings.Contains(err.Error(), way), err, "does not name", way)
	}
}

// TestEndedEarly: a server that ends before it is ready is reported as such, and a process that has ended takes no
// signals.
func TestEndedEarly(t *testing.T) {
	binary := testkit.Must(Binary())(t)
	silent := testkit.Must(exec.LookPath("true"))(t) // it ends without an error, and has started no server
	for program, want := range map[string]string{silent: "exit code 0", binary: "exit status 2"} {
		p := &Process{Binary: program, Data: t.TempDir(), Args: []string{"--no-such-flag"}}
		err := p.Start(t.Context())
		testkit.Holds(t, err != nil && strings.Contains(err.Error(), want), program, err)
		err = p.Signal(syscall.SIGTERM)
		testkit.Holds(t, errors.Is(err, os.ErrProcessDone) && p.Pid() == 0, program, "a signal to process", p.Pid(), err)
	}
	none := &Process{Binary: filepath.Join(t.TempDir(), "none"), Data: t.TempDir()}
	err := none.Start(t.Context())
	testkit.Holds(t, errors.Is(err, os.ErrNotExist) && errors.Is(none.Err(), os.ErrNotExist), "no binary", err, none.Err())
}

// parentOf names the variable that makes TestServerEndsWithItsParent run as the parent.
const parentOf = "DAYBOOKTEST_PARENT_OF"

// TestServerEndsWithItsParent: a server ends when the process that started it is killed.
func TestServerEndsWithItsParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends a process with its parent")
	}
	if binary := os.Getenv(parentOf); binary != "" {
		p := &Process{Binary: binary, Data: t.TempDir()}
		testkit.NoError(t, p.Start(t.Context()))
		fmt.Println("serves", p.Listen)
		time.Sleep(time.Minute) // real time: until it is killed
		return
	}
	binary := testkit.Must(Binary())(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	parent := exec.CommandContext(ctx, os.Args[0], "-test.run", "^TestServerEndsWithItsParent$")
	parent.Env = append(os.Environ(), parentOf+"="+binary, "TMPDIR="+t.TempDir())
	out := testkit.Must(parent.StdoutPipe())(t)
	testkit.NoError(t, parent.Start())
	address := ""
	for lines := bufio.NewScanner(out); address == "" && lines.Scan(); {
		if at, ok := strings.CutPrefix(lines.Text(), "serves "); ok {
			address = at
		}
	}
	if conn, err := net.Dial("tcp", address); err != nil {
		t.Errorf("the server does not listen: %v", err)
	} else {
		conn.Close()
	}
	testkit.NoError(t, parent.Process.Kill())
	_ = parent.Wait()                                      // it was killed
	for ; ctx.Err() == nil; time.Sleep(time.Millisecond) { // real time: another process ends
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		conn.Close()
	}
	t.Error("the server still listens")
}
