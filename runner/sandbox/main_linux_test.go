package sandbox

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/daybookq/daybook/internal/testkit"
)

// roles are functions that the test binary runs instead of tests if DAYBOOK_TEST_ROLE is set. They end the process.
var roles = map[string]func(args []string) error{
	"runner": runnerRole,
	"connect": func(args []string) error {
		c, err := net.Dial("tcp", args[0])
		if err == nil {
			c.Close()
		}
		return err
	},
	"listen": func([]string) error {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err == nil {
			l.Close()
		}
		return err
	},
	"udp": func([]string) error {
		c, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err == nil {
			c.Close()
		}
		return err
	},
	"mptcp": func([]string) error {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, unix.IPPROTO_MPTCP)
		if err == nil {
			syscall.Close(fd)
		}
		return err
	},
	"ring": func([]string) error {
		var parameters [120]byte
		fd, _, errno := syscall.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&parameters)), 0)
		if errno != 0 {
			return errno
		}
		return syscall.Close(int(fd))
	},
	"unix": func(args []string) error {
		c, err := net.Dial("unix", args[0])
		if err == nil {
			c.Close()
		}
		return err
	},
	"pair": func([]string) error {
		_, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		return err
	},
	"interfaces": func([]string) error { _, err := net.Interfaces(); return err },
	"abstract": func(args []string) error {
		c, err := net.Dial("unix", "@"+args[0])
		if err == nil {
			c.Close()
		}
		return err
	},
	"attach": func([]string) error { return syscall.PtraceAttach(os.Getppid()) },
}

func TestMain(m *testing.M) {
	if role := os.Getenv("DAYBOOK_TEST_ROLE"); role != "" {
		if err := roles[role](os.Args[1:]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// inRole returns a command that runs the test binary in a role.
func inRole(t testing.TB, role string, args ...string) Command {
	t.Helper()
	exe := testkit.Must(os.Executable())(t)
	return Command{Argv: append([]string{exe}, args...), Env: []string{"DAYBOOK_TEST_ROLE=" + role}}
}

// shell returns a command that runs a script.
func shell(script string, args ...string) Command {
	return Command{Argv: append([]string{"sh", "-c", script}, args...), Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"}}
}

// kinds are all tested ways to end a tree.
var kinds = []kind{namespace, control, subreaper}

// eachKind runs a test with each kind that works on this machine.
func eachKind(t *testing.T, test func(t *testing.T, s *Sandbox)) {
	for _, k := range kinds {
		t.Run(string(k), func(t *testing.T) { test(t, ofKind(t, k)) })
	}
}

// ofKind returns a sandbox of a kind, or skips the test.
func ofKind(t testing.TB, k kind) *Sandbox {
	t.Helper()
	s, err := newSandbox(k)
	if err != nil {
		t.Skipf("this machine has no %s: %v", k, err)
	}
	return s
}

// result is a command's Exit and output.
type result struct {
	Exit
	out, err string
}

func (r result) String() string { return fmt.Sprintf("%s, output %q, errors %q", r.Exit, r.out, r.err) }

// run runs a command until it ends.
func run(t testing.TB, s *Sandbox, c Command) result {
	t.Helper()
	var out, errs bytes.Buffer
	if c.Stdout == nil {
		c.Stdout = &out
	}
	if c.Stderr == nil {
		c.Stderr = &errs
	}
	p := testkit.Must(s.Start(c))(t)
	exit, err := p.Wait()
	testkit.NoError(t, err, "wait")
	return result{exit, out.String(), errs.String()}
}

// marked returns the machine's processes that have mark in their arguments, as texts.
func marked(t testing.TB, mark string) (found []string) {
	t.Helper()
	files := testkit.Must(filepath.Glob("/proc/[0-9]*/cmdline"))(t)
	for _, file := range files {
		if line, err := os.ReadFile(file); err == nil && bytes.Contains(line, []byte(mark)) {
			found = append(found, filepath.Dir(file)+" "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}
