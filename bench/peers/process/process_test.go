package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daybookq/daybook/bench/rig"
	"github.com/daybookq/daybook/internal/testkit"
)

// helperVar makes this program start a server and wait, to be killed by TestEndsWithParent.
const helperVar = "PROCESS_TEST_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helperVar) != "" {
		p, err := Start(Command{Path: "/bin/sleep", Args: []string{"600"}})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(p.Pid())
		<-p.Done()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestEndsWithParent: a server ends when the process that started it is killed.
func TestEndsWithParent(t *testing.T) {
	self := testkit.Must(os.Executable())(t)
	helper := exec.Command(self)
	helper.Env = append(os.Environ(), helperVar+"=1")
	out := testkit.Must(helper.StdoutPipe())(t)
	testkit.NoError(t, helper.Start())
	line := testkit.Must(bufio.NewReader(out).ReadString('\n'))(t)
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatalf("the helper printed %q", line)
	}
	testkit.NoError(t, helper.Process.Kill())
	_ = helper.Wait() // it was killed
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) || strings.Contains(string(state), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d still runs: %s, %v", pid, state, err)
		}
	}
}

func TestClose(t *testing.T) {
	p := testkit.Must(Start(Command{Path: "/bin/sleep", Args: []string{"600"}}))(t)
	testkit.Check(t, p.Close())
	if err := p.Close(); err != nil {
		t.Errorf("the second Close: %v", err)
	}
	if err := syscall.Kill(p.Pid(), 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the process is still there: %v", err)
	}
}

// TestUntil: if a server ends before it answers, the error has the server's output.
func TestUntil(t *testing.T) {
	p := testkit.Must(Start(Command{Path: "/bin/sh", Args: []string{"-c", "echo the port is taken >&2; exit 3"}}))(t)
	never := func(context.Context) error { return errors.New("refused") }
	if err := p.Until(t.Context(), never); err == nil || !strings.Contains(err.Error(), "the port is taken") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("the error is %v", err)
	}
	p = testkit.Must(Start(Command{Path: "/bin/sleep", Args: []string{"600"}}))(t)
	defer p.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	late := errors.New("late")
	cancel(late)
	if err := p.Until(ctx, never); !errors.Is(err, late) {
		t.Errorf("the error is %v", err)
	}
}

func TestStartMissing(t *testing.T) {
	if _, err := Start(Command{Path: "/nonexistent/server"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the error is %v", err)
	}
}

// TestTime: the processor time of children counts.
func TestTime(t *testing.T) {
	p := testkit.Must(Start(Command{Path: "/bin/sh", Args: []string{"-c", "(while :; do :; done) & wait"}}))(t)
	defer p.Close()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		used := testkit.Must(Time(p.Pid()))(t)
		if used > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a busy child used no processor time in a minute")
		}
	}
	all := testkit.Must(rig.Descendants(p.Pid()))(t)
	for id := range all { // the shell does not end its child
		if id != p.Pid() {
			_ = syscall.Kill(id, syscall.SIGKILL)
		}
	}
}

func TestSyncCall(t *testing.T) {
	const trace = `7 fsync(5 <unfinished ...>
8 fdatasync(6) = 0
7 <... fsync resumed>) = 0
9 +++ exited with 0 +++
`
	if n := len(syncCall.FindAll([]byte(trace), -1)); n != 2 {
		t.Errorf("%d calls were found, expected 2", n)
	}
}

func TestFind(t *testing.T) {
	path, err := Find("sh")
	if err != nil || !strings.HasPrefix(path, "/") {
		t.Errorf("Find(sh) is %q, %v", path, err)
	}
	if _, err := Find("no-such-server", t.TempDir()); err == nil {
		t.Error("a missing program was found")
	}
}
