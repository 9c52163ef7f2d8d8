package container

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/daybookq/daybook/internal/testkit"
)

// nestedDir is the environment variable that passes TestNestedFiles' directory to its child processes.
const nestedDir = "DAYBOOK_TEST_NESTED"

// TestNestedFiles: deleted files of processes in namespaces below a container's count. Deleted files of other processes
// do not.
func TestNestedFiles(t *testing.T) {
	if dir := os.Getenv(nestedDir); dir != "" {
		holdNested(t, dir)
		return
	}
	dir := t.TempDir()
	hold := func(name string) *os.File {
		f := testkit.Must(os.Create(filepath.Join(dir, name)))(t)
		testkit.Must(f.Write(bytes.Repeat([]byte{1}, 4<<20)))(t)
		testkit.NoError(t, os.Remove(f.Name()))
		return f
	}
	defer hold("of the runner").Close()
	first, output := startNested(t, dir)
	lines := bufio.NewScanner(output)
	if !lines.Scan() || lines.Text() != "holding" {
		t.Fatalf("the process has printed %q", lines.Text()+rest(lines))
	}
	pids := testkit.Must(os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", first)))(t)
	var s unix.Stat_t
	testkit.NoError(t, unix.Stat(dir, &s))
	d := &deletedFiles{first, pids, uint64(s.Dev)} //nolint:unconvert // as in newDeletedFiles
	n := testkit.Must(d.bytes(t.Context(), 1<<40))(t)
	testkit.Holds(t, n >= 2<<20 && n < 4<<20, "the files have", n, "bytes, want 2 MiB")
}

func rest(lines *bufio.Scanner) (text string) {
	for lines.Scan() {
		text += "\n" + lines.Text()
	}
	return text
}

// startNested starts this test in a new PID namespace.
func startNested(t *testing.T, dir string) (id int, output interface{ Read([]byte) (int, error) }) {
	c := exec.Command(os.Args[0], "-test.run=^TestNestedFiles$", "-test.timeout=60s")
	c.Env = append(os.Environ(), nestedDir+"="+filepath.Join(dir, "below"))
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
	}
	if os.Getenv(nestedDir) != "" { // it is in a user namespace, and /proc does not show its own process ids
		c.SysProcAttr.Cloneflags, c.SysProcAttr.UidMappings = syscall.CLONE_NEWPID, nil
	}
	testkit.NoError(t, os.MkdirAll(filepath.Join(dir, "below"), 0o700))
	stdout := testkit.Must(c.StdoutPipe())(t)
	if err := c.Start(); err != nil {
		testkit.MustEqual(t, os.Getenv(nestedDir), "", err)
		t.Skipf("this machine has no user namespaces: %v", err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	return c.Process.Pid, stdout
}

// holdNested keeps a deleted file open, two namespaces below the test.
func holdNested(t *testing.T, dir string) {
	if filepath.Base(filepath.Dir(dir)) != "below" {
		_, output := startNested(t, dir)
		lines := bufio.NewScanner(output)
		for lines.Scan() {
			fmt.Println(lines.Text())
		}
		return
	}
	f := testkit.Must(os.Create(filepath.Join(dir, "gone")))(t)
	testkit.Must(f.Write(make([]byte, 2<<20)))(t)
	testkit.NoError(t, os.Remove(f.Name()))
	fmt.Println("holding")
	time.Sleep(time.Hour) // real time: the test kills this process
	fmt.Println(strconv.Itoa(int(f.Fd())))
}
