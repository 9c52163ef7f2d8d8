package deploy_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/daybookq/daybook/docs/check"
)

// newNetwork moves this goroutine, and the processes that it starts, into a network of its own, with a network card. It
// returns no error, but skips the test where this cannot be done.
func newNetwork(t *testing.T) {
	t.Helper()
	ip := needs(t, "ip")
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skipf("this machine has no network namespaces: %v", err)
	}
	for _, line := range []string{
		"link set lo up",
		"link add card type veth peer name switch",
		"addr add 10.77.0.1/24 dev card",
		"link set switch up",
		"link set card up",
		"route add default dev card",
	} {
		must(t, exec.Command(ip, strings.Fields(line)...))
	}
}

// A terminal is a shell in the root of another system.
type terminal struct {
	in    io.WriteCloser
	lines *bufio.Reader
	count int
}

func newTerminal(t *testing.T, root string) *terminal {
	t.Helper()
	home := filepath.Join(root, "root")
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	shell := exec.Cmd{Path: "/bin/sh", Args: []string{"sh"}, Dir: "/root", Env: []string{"PATH=/usr/bin:/bin", "HOME=/root", "NO_COLOR=1"},
		SysProcAttr: &syscall.SysProcAttr{Chroot: root, Setpgid: true}}
	in, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, into, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	shell.Stdout, shell.Stderr = into, into
	if err := errors.Join(shell.Start(), into.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) // it may have ended
		_ = shell.Wait()
		out.Close()
	})
	return &terminal{in: in, lines: bufio.NewReader(out)}
}

// run runs a command and returns what it prints.
func (s *terminal) run(t *testing.T, command string) string {
	t.Helper()
	s.count++
	end := fmt.Sprintf("end of command %d: ", s.count)
	if _, err := fmt.Fprintf(s.in, "%s\necho \"\n%s$?\"\n", command, end); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out.String())
		}
		code, ok := strings.CutPrefix(line, end)
		if !ok {
			out.WriteString(line)
			continue
		}
		if code != "0\n" {
			t.Fatalf("%s: exit code %s%s", command, code, out.String())
		}
		return out.String()
	}
}

// TestQuickStart follows docs/tutorials/quick-start.md on a system that has the package of Debian, a shell and four other
// programs. The commands are those of the page. The test does what `sudo dpkg -i` and `sudo systemctl` do.
func TestQuickStart(t *testing.T) {
	with := installers(t)["deb"]
	newNetwork(t)
	in := newRoot(t, "/usr/bin/tee")
	for name, text := range map[string]string{"usr/bin/sudo": "#!/bin/sh\nexec \"$@\"\n", "etc/hostname": "fresh\n"} {
		path := filepath.Join(in, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	proc := filepath.Join(in, "proc")
	if err := os.MkdirAll(proc, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("proc", proc, "proc", 0, ""); err != nil {
		t.Skipf("/proc cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(proc, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})

	began := time.Now()
	var server *service
	start := func() {
		server = startService(t, in, time.Minute)
		server.await(t, "READY=1")
	}
	does := map[string]func(){
		"sudo dpkg -i daybook_*.deb":          func() { with.install(t, in) },
		"sudo systemctl enable --now daybook": start,
		"sudo systemctl restart daybook": func() {
			if err := server.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if code := server.exit(t); code != 0 {
				t.Fatalf("the server ends with %d: %s", code, server.log.String())
			}
			start()
		},
	}
	steps, err := check.Steps(root(t), "docs/tutorials/quick-start.md", "deploy TestQuickStart")
	if err != nil {
		t.Fatal(err)
	}
	shell := newTerminal(t, in)
	for _, s := range steps {
		if s.File != "" {
			if err := os.WriteFile(filepath.Join(in, "root", s.File), []byte(s.Text), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if strings.HasPrefix(s.Command, "daybook serve ") {
			continue // the unit has started it
		}
		if s.Want() != "" || !strings.HasPrefix(s.Command, "sudo ") && !strings.Contains(s.Command, "\nsudo ") {
			if got := shell.run(t, s.Command); !s.Prints(got) {
				t.Errorf("line %d: %s\nprints\n%s\nand the page says\n%s", s.Line, s.Command, got, s.Want())
			}
			continue
		}
		for line := range strings.Lines(s.Command) {
			line = strings.TrimSpace(line)
			if do := does[line]; do != nil {
				do()
				delete(does, line)
			} else {
				shell.run(t, line)
			}
		}
	}
	for line := range does {
		t.Errorf("the page does not say %q", line)
	}
	took := time.Since(began)
	t.Logf("the quick start took %.1f s with its commands, in a system that had nothing but a shell", took.Seconds())
	if took > 5*time.Minute {
		t.Error("that is more than five minutes")
	}
}
