package deploy_test

import (
	"bufio"
	"bytes"
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
	"github.com/daybookq/daybook/internal/testkit"
)

// newNetwork moves this goroutine, and the processes that it starts, into a new network namespace with a network card. It
// skips the test if the machine does not allow that.
func newNetwork(t *testing.T) {
	t.Helper()
	ip := needs(t, "ip")
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
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

// terminal is a shell in the root of another system.
type terminal struct {
	in    io.WriteCloser
	lines *bufio.Reader
	count int
}

func newTerminal(t *testing.T, root string) *terminal {
	t.Helper()
	testkit.NoError(t, os.MkdirAll(filepath.Join(root, "root"), 0o700))
	shell := exec.Cmd{Path: "/bin/sh", Args: []string{"sh"}, Dir: "/root", Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/root", "NO_COLOR=1"},
		SysProcAttr: &syscall.SysProcAttr{Chroot: root}}
	in := testkit.Must(shell.StdinPipe())(t)
	out, into := testkit.Must2(os.Pipe())(t)
	shell.Stdout, shell.Stderr = into, into
	t.Cleanup(func() { out.Close() })
	testkit.StartGroup(t, &shell)
	testkit.NoError(t, into.Close())
	return &terminal{in: in, lines: bufio.NewReader(out)}
}

// run runs a command and returns its output.
func (s *terminal) run(t *testing.T, command string) string {
	t.Helper()
	s.count++
	end := fmt.Sprintf("end of command %d: ", s.count)
	testkit.Must(fmt.Fprintf(s.in, "%s\necho \"\n%s$?\"\n", command, end))(t)
	var out bytes.Buffer
	for {
		line, err := s.lines.ReadString('\n')
		testkit.NoError(t, err, command, &out)
		code, ok := strings.CutPrefix(line, end)
		if !ok {
			out.WriteString(line)
			continue
		}
		testkit.MustEqual(t, code, "0\n", command, "exit code", &out)
		return out.String()
	}
}

// machine is a fresh system with a shell, a network card and only those programs that the test names. The test replaces
// `sudo dpkg -i`, `sudo rpm -U` and `sudo systemctl` on it.
type machine struct {
	root   string
	server *service
}

func newMachine(t *testing.T, programs ...string) *machine {
	t.Helper()
	newNetwork(t)
	m := &machine{root: newRoot(t, programs...)}
	testkit.NoError(t, os.MkdirAll(filepath.Join(m.root, "usr/bin"), 0o755))
	testkit.NoError(t, os.WriteFile(filepath.Join(m.root, "usr/bin/sudo"), []byte("#!/bin/sh\nexec \"$@\"\n"), 0o755))
	proc := filepath.Join(m.root, "proc")
	testkit.NoError(t, os.MkdirAll(proc, 0o755))
	if err := unix.Mount("proc", proc, "proc", 0, ""); err != nil {
		t.Skipf("/proc cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { testkit.Check(t, unix.Unmount(proc, unix.MNT_DETACH)) })
	return m
}

func (m *machine) start(t *testing.T) {
	t.Helper()
	m.server = startService(t, m.root, time.Minute)
	m.server.await(t, "READY=1")
}

func (m *machine) stop(t *testing.T) {
	t.Helper()
	testkit.NoError(t, m.server.Process.Signal(syscall.SIGTERM))
	testkit.MustEqual(t, m.server.exit(t), 0, "the server's exit code", &m.server.log)
}

// follow runs the commands in a page's blocks that have no note, or a note with the name of this test. For the lines in
// does, it calls the function instead; the page must contain each of them.
func (m *machine) follow(t *testing.T, page, test string, does map[string]func()) {
	t.Helper()
	steps := testkit.Must(check.Steps(root(t), page, test))(t)
	shell := newTerminal(t, m.root)
	for _, s := range steps {
		if s.File != "" {
			testkit.NoError(t, os.WriteFile(filepath.Join(m.root, "root", s.File), []byte(s.Text), 0o644))
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

// Commands by which the pages install packages.
const (
	dpkgCommand = `sudo dpkg -i bin/release/daybook_*_"$(dpkg --print-architecture)".deb`
	rpmCommand  = `sudo rpm -U bin/release/daybook-*."$(uname -m)".rpm`
)

// TestNamesOfPackages: dpkgCommand and rpmCommand match exactly one file each.
func TestNamesOfPackages(t *testing.T) {
	released(t, "daybook_*_"+runtime.GOARCH+".deb")
	released(t, "daybook-*."+map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]+".rpm")
}

// TestQuickStart follows docs/tutorials/quick-start.md on a system with the Debian package and a shell, and logs how long
// that took.
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

// TestInstallArchive follows docs/how-to/install.md for an archive.
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
		testkit.Holds(t, exists(filepath.Join(m.root, path)), path, "is not installed")
	}
}

// TestInstallDeb follows docs/how-to/install.md for the deb, the new disk, the settings and the backups.
func TestInstallDeb(t *testing.T) {
	with := installers(t)["deb"]
	m := newMachine(t, "/usr/bin/tee")
	m.follow(t, "docs/how-to/install.md", "deploy TestInstallDeb", map[string]func(){
		dpkgCommand:                           func() { with.install(t, m.root) },
		"sudo systemctl enable --now daybook": func() { m.start(t) },
		"sudo systemctl start daybook": func() { // with a new, empty disk
			m.stop(t)
			data := filepath.Join(m.root, "var/lib/daybook")
			testkit.NoError(t, os.Rename(data, data+"-of-the-old-disk"))
			m.start(t)
		},
		"sudo systemctl restart daybook": func() { m.stop(t); m.start(t) },
	})
}

// TestInstallRpm follows docs/how-to/install.md for the rpm.
func TestInstallRpm(t *testing.T) {
	with := installers(t)["rpm"]
	m := newMachine(t)
	m.follow(t, "docs/how-to/install.md", "deploy TestInstallRpm", map[string]func(){
		rpmCommand:                            func() { with.install(t, m.root) },
		"sudo systemctl enable --now daybook": func() { m.start(t) },
	})
}
