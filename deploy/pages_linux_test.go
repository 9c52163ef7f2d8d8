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
	shell := exec.Cmd{Path: "/bin/sh", Args: []string{"sh"}, Dir: "/root", Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/root", "NO_COLOR=1"},
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

// A machine is a fresh system with a shell, a network card and no other programs than those that a test names. The test
// does what `sudo dpkg -i`, `sudo rpm -U` and `sudo systemctl` do there.
type machine struct {
	root   string
	server *service
}

func newMachine(t *testing.T, programs ...string) *machine {
	t.Helper()
	newNetwork(t)
	m := &machine{root: newRoot(t, programs...)}
	if err := os.MkdirAll(filepath.Join(m.root, "usr/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(m.root, "usr/bin/sudo"), []byte("#!/bin/sh\nexec \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	proc := filepath.Join(m.root, "proc")
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
	return m
}

func (m *machine) start(t *testing.T) {
	t.Helper()
	m.server = startService(t, m.root, time.Minute)
	m.server.await(t, "READY=1")
}

func (m *machine) stop(t *testing.T) {
	t.Helper()
	if err := m.server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := m.server.exit(t); code != 0 {
		t.Fatalf("the server ends with %d: %s", code, m.server.log.String())
	}
}

// follow does what a page says in the blocks without a note and in those of a test. The lines in does are commands that
// the test does; the page must have each of them. All others are run on the machine.
func (m *machine) follow(t *testing.T, page, test string, does map[string]func()) {
	t.Helper()
	steps, err := check.Steps(root(t), page, test)
	if err != nil {
		t.Fatal(err)
	}
	shell := newTerminal(t, m.root)
	for _, s := range steps {
		if s.File != "" {
			if err := os.WriteFile(filepath.Join(m.root, "root", s.File), []byte(s.Text), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if strings.HasPrefix(s.Command, "daybook serve ") {
			continue // the unit has started it
		}
		if !s.Compared() {
			for line := range strings.Lines(s.Command) {
				line = strings.TrimSpace(line)
				if do := does[line]; do != nil {
					do()
					delete(does, line)
				} else {
					shell.run(t, line)
				}
			}
		} else if got := shell.run(t, s.Command); !s.Prints(got) {
			t.Errorf("%s:%d: %s\nprints\n%s\nand the page says\n%s", page, s.Line, s.Command, got, s.Want)
		}
	}
	for line := range does {
		t.Errorf("%s does not say %q", page, line)
	}
}

// The pages install packages with these commands.
const (
	dpkgCommand = `sudo dpkg -i bin/release/daybook_*_"$(dpkg --print-architecture)".deb`
	rpmCommand  = `sudo rpm -U bin/release/daybook-*."$(uname -m)".rpm`
)

// TestNamesOfPackages: the names in dpkgCommand and rpmCommand are those of one file each.
func TestNamesOfPackages(t *testing.T) {
	released(t, "daybook_*_"+runtime.GOARCH+".deb")
	released(t, "daybook-*."+map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]+".rpm")
}

// TestQuickStart follows docs/tutorials/quick-start.md on a system that has the package of Debian and a shell, and prints
// how long that took.
func TestQuickStart(t *testing.T) {
	with := installers(t)["deb"]
	m := newMachine(t, "/usr/bin/tee")
	began := time.Now()
	m.follow(t, "docs/tutorials/quick-start.md", "deploy TestQuickStart", map[string]func(){
		dpkgCommand:                           func() { with.install(t, m.root) },
		"sudo systemctl enable --now daybook": func() { m.start(t) },
		"sudo systemctl restart daybook":      func() { m.stop(t); m.start(t) },
	})
	t.Logf("the commands of the quick start took %.1f s, on a system that had nothing but a shell and tee", time.Since(began).Seconds())
}

// TestInstallArchive does what docs/how-to/install.md says of an archive.
func TestInstallArchive(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the page has the name of the archive for amd64")
	}
	archive := released(t, "*_linux_amd64.tar.gz")
	m := newMachine(t, "/usr/bin/sha256sum", "/bin/tar", "/bin/gzip", "/usr/bin/install")
	home := filepath.Join(m.root, "root")
	must(t, exec.Command("mkdir", home))
	must(t, exec.Command("cp", archive, filepath.Join(*releaseDir, "SHA256SUMS"), home))
	m.follow(t, "docs/how-to/install.md", "deploy TestInstallArchive", nil)
	for _, path := range []string{"usr/local/bin/daybook", "usr/local/share/man/man1/daybook-add.1"} {
		if !exists(filepath.Join(m.root, path)) {
			t.Errorf("/%s is not installed", path)
		}
	}
}

// TestInstallDeb does what docs/how-to/install.md says of the deb, the new disk, the settings and the backups.
func TestInstallDeb(t *testing.T) {
	with := installers(t)["deb"]
	m := newMachine(t, "/usr/bin/tee")
	m.follow(t, "docs/how-to/install.md", "deploy TestInstallDeb", map[string]func(){
		dpkgCommand:                           func() { with.install(t, m.root) },
		"sudo systemctl enable --now daybook": func() { m.start(t) },
		"sudo systemctl start daybook": func() { // with a new disk, which is empty
			m.stop(t)
			data := filepath.Join(m.root, "var/lib/daybook")
			if err := os.Rename(data, data+"-of-the-old-disk"); err != nil {
				t.Fatal(err)
			}
			m.start(t)
		},
		"sudo systemctl restart daybook": func() { m.stop(t); m.start(t) },
	})
}

// TestInstallRpm does what docs/how-to/install.md says of the rpm.
func TestInstallRpm(t *testing.T) {
	with := installers(t)["rpm"]
	m := newMachine(t)
	m.follow(t, "docs/how-to/install.md", "deploy TestInstallRpm", map[string]func(){
		rpmCommand:                            func() { with.install(t, m.root) },
		"sudo systemctl enable --now daybook": func() { m.start(t) },
	})
}
