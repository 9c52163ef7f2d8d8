package sandbox

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

func TestLimits(t *testing.T) {
	tmp := t.TempDir()
	eachKind(t, func(t *testing.T, s *Sandbox) {
		c := shell(`ulimit -c; ulimit -n; ulimit -H -n; ulimit -f; ulimit -v`)
		c.Limits = Limits{OpenFiles: 33, FileBytes: 4096}
		// sh counts file sizes in units of 512 bytes.
		r := run(t, s, c)
		testkit.Equal(t, r.out, "0\n33\n33\n8\nunlimited\n", r)
		c = shell(`head -c 4096 /dev/zero > "$1" && exec head -c 4097 /dev/zero > "$1"`, "sh", tmp+"/file")
		c.Limits.FileBytes, c.Access.ReadWrite = 4096, []string{tmp}
		r = run(t, s, c)
		testkit.Equal(t, r.Signal, syscall.SIGXFSZ, r)
		var before, after syscall.Rlimit
		testkit.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
		c = shell(`ulimit -H -n`)
		c.Limits.OpenFiles = 1<<31 - 1 // more than the runner may have
		r = run(t, s, c)
		testkit.Equal(t, r.out, strconv.FormatUint(before.Max, 10)+"\n", before.Max, r)
		err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &after)
		testkit.Holds(t, err == nil && after == before, "the runner's own limit is", after, before, "before", err)
	})
}

// TestProcessLimit: at the limit, a program cannot start more processes, and it ends with all of them.
func TestProcessLimit(t *testing.T) {
	s := ofKind(t, kinds[0])
	for _, text := range s.Missing() {
		if strings.Contains(text, "number of processes") {
			t.Skip(text)
		}
	}
	m := mark()
	c := shell(`i=0; while [ $i -lt 200 ]; do sleep 1000 "$0" & i=$((i+1)); done; echo all`, m)
	c.Limits.Processes = 20
	r := run(t, s, c)
	testkit.Holds(t, !r.OK() && !strings.Contains(r.out, "all") && strings.Contains(strings.ToLower(r.err), "fork"), r)
	gone(t, m)
}

// TestMemoryLimit: a program that exceeds its memory limit is killed.
func TestMemoryLimit(t *testing.T) {
	s := ofKind(t, kinds[0])
	for _, text := range s.Missing() {
		if strings.Contains(text, "memory controller") {
			t.Skip(text)
		}
	}
	c := shell(`head -c 200000000 /dev/zero | tail > /dev/null; echo survived`) // the input is one line, so tail keeps all of it
	c.Limits.MemoryBytes = 32 << 20
	r := run(t, s, c)
	testkit.Holds(t, r.Signal == syscall.SIGKILL && r.out == "", r)
	c.Limits.MemoryBytes = 1 << 30
	r = run(t, s, c)
	testkit.Holds(t, r.OK() && r.out == "survived\n", r)
}

// TestNetworkAccess: each way to reach a network is refused by default, and allowed by the setting.
func TestNetworkAccess(t *testing.T) {
	if !canFilter() {
		t.Skip("this machine has no seccomp filters")
	}
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	path := filepath.Join(t.TempDir(), "socket")
	u := testkit.Must(net.Listen("unix", path))(t)
	defer u.Close()
	eachKind(t, func(t *testing.T, s *Sandbox) {
		for _, role := range []string{"pair", "interfaces"} {
			r := run(t, s, inRole(t, role))
			testkit.Holds(t, r.OK(), role, r)
		}
		for _, role := range []string{"connect", "mptcp", "listen", "udp", "ring", "unix"} {
			for _, allowed := range []bool{false, true} {
				c := inRole(t, role, l.Addr().String())
				if role == "unix" {
					c = inRole(t, role, path)
				}
				c.Access.Network = allowed
				r := run(t, s, c)
				if allowed && !r.OK() && (strings.Contains(r.out, "not supported") || strings.Contains(r.out, "not implemented") || strings.Contains(r.out, "not permitted")) {
					t.Logf("this machine cannot do %s at all: %s", role, r)
				} else if r.OK() != allowed || !allowed && !strings.Contains(r.out, "permission denied") && !strings.Contains(r.out, "not implemented") {
					t.Errorf("%s, allowed %t: %s", role, allowed, r)
				}
			}
		}
	})
}

// needLandlock skips a test if landlock is older than a version.
func needLandlock(t *testing.T, abi int) {
	t.Helper()
	if now := landlockABI(); now < abi {
		t.Skipf("the kernel's landlock has version %d, not %d", now, abi)
	}
}

// withoutShared removes the directories of temporary files from the default, because tests' directories are in them.
func withoutShared(t *testing.T) {
	t.Helper()
	now := sharedPaths
	sharedPaths = nil
	t.Cleanup(func() { sharedPaths = now })
}

// TestFileAccess: landlock refuses each access by default, and one setting allows it.
func TestFileAccess(t *testing.T) {
	needLandlock(t, 3)
	withoutShared(t)
	for _, c := range []struct {
		name, script string
		write        bool // requires ReadWrite
	}{
		{"read a file", "cat $1/file", false},
		{"list a directory", "ls $1", false},
		{"execute a file", "$1/program", false},
		{"write a file", "echo new > $1/file", true},
		{"append to a file", "echo new >> $1/file", true},
		{"create a file", "echo new > $1/created", true},
		{"truncate a file", "truncate -s 0 $1/file", true},
		{"make a directory", "mkdir $1/made", true},
		{"remove a file", "rm $1/file", true},
		{"remove a directory", "rmdir $1/empty", true},
		{"rename a file", "mv $1/file $1/renamed", true},
		{"make a link", "ln -s file $1/link", true},
		{"make a pipe", "mkfifo $1/pipe", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachKind(t, func(t *testing.T, s *Sandbox) {
				for _, access := range []struct {
					name   string
					access func(dir string) Access
					dir    bool
					ok     bool
				}{
					{"default", func(string) Access { return Access{} }, false, false},
					{"working directory", func(string) Access { return Access{} }, true, !c.write},
					{"read only", func(dir string) Access { return Access{ReadOnly: []string{dir}} }, false, !c.write},
					{"read and write", func(dir string) Access { return Access{ReadWrite: []string{dir}} }, false, true},
				} {
					dir := t.TempDir()
					for name, mode := range map[string]os.FileMode{"file": 0o644, "program": 0o755} {
						testkit.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho ran\n"), mode))
					}
					testkit.NoError(t, os.Mkdir(filepath.Join(dir, "empty"), 0o755))
					command := shell(c.script, "sh", dir)
					command.Access = access.access(dir)
					if access.dir {
						command.Dir = dir
					}
					r := run(t, s, command)
					refused := strings.Contains(r.err, "denied") || strings.Contains(r.err, "Permission")
					testkit.Holds(t, r.OK() == access.ok && (access.ok || refused), access.name, r)
				}
			})
		})
	}
}

// TestDefaultAccess: the default allows what ordinary programs need.
func TestDefaultAccess(t *testing.T) {
	needLandlock(t, 1)
	tmp := t.TempDir()
	eachKind(t, func(t *testing.T, s *Sandbox) {
		c := shell(`set -e
echo a > /dev/null; head -c 1 /dev/urandom | wc -c; head -c 1 /dev/zero | wc -c
echo b > "$TMPDIR/made"; cat "$TMPDIR/made"; rm "$TMPDIR/made"
cat /etc/passwd > /dev/null; ls / > /dev/null 2>&1 || echo no list of the root
cat /proc/self/stat > /dev/null; readlink /proc/self/exe > /dev/null; echo c | tee /dev/stderr`)
		c.Env = append(c.Env, "TMPDIR="+tmp)
		r := run(t, s, c)
		testkit.Holds(t, r.OK() && r.out == "1\n1\nb\nno list of the root\nc\n", r)
	})
	// A program that can be read, but whose directory cannot be listed.
	withoutShared(t)
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	testkit.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\ncat \"$0\" >/dev/null && ! ls "+dir+"\n"), 0o755))
	eachKind(t, func(t *testing.T, s *Sandbox) {
		r := run(t, s, Command{Argv: []string{program}, Env: []string{"PATH=/bin:/usr/bin"}})
		testkit.Holds(t, r.OK() && r.out == "", r)
	})
}

// TestOtherProcesses: a program can neither read the runner's memory or environment nor send it signals.
func TestOtherProcesses(t *testing.T) {
	needLandlock(t, 6)
	pid := strconv.Itoa(os.Getpid())
	for _, k := range []kind{control, subreaper} { // in a PID namespace, the program does not see the runner
		t.Run(string(k), func(t *testing.T) {
			s := ofKind(t, k)
			for _, script := range []string{"kill -0 " + pid, "cat /proc/" + pid + "/environ", "readlink -v /proc/" + pid + "/fd/0"} {
				r := run(t, s, shell(script))
				testkit.Holds(t, !r.OK() && (strings.Contains(r.err, "denied") || strings.Contains(r.err, "not permitted")), script, r)
			}
		})
	}
}

// TestAbstractSockets: file permissions do not protect Unix sockets without a file. Landlock refuses them even to
// programs that may use the network.
func TestAbstractSockets(t *testing.T) {
	needLandlock(t, 6)
	name := fmt.Sprintf("daybook-test-%d", os.Getpid())
	l := testkit.Must(net.Listen("unix", "@"+name))(t)
	defer l.Close()
	eachKind(t, func(t *testing.T, s *Sandbox) {
		c := inRole(t, "abstract", name)
		c.Access.Network = true
		r := run(t, s, c)
		testkit.Holds(t, r.Code == 1 && strings.Contains(r.out, "not permitted"), r)
	})
}

// TestBare: with Bare, a program reaches only libraries and the paths that it is granted.
func TestBare(t *testing.T) {
	needLandlock(t, 1)
	dir := t.TempDir()
	testkit.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("given\n"), 0o644))
	eachKind(t, func(t *testing.T, s *Sandbox) {
		c := shell(`cat "$1/file"; for f in /etc/passwd "$1/new" /tmp /dev; do if (: > "$f" || read line < "$f" || ls "$f") 2>/dev/null; then echo "reached $f"; fi; done`, "sh", dir)
		c.Access = Access{ReadOnly: []string{dir, "/bin", "/usr/bin"}}
		c.Bare = true
		r := run(t, s, c)
		testkit.Equal(t, r.out, "given\n", r)
	})
}

// TestAsNobody runs the other tests as an unprivileged user.
func TestAsNobody(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	const nobody = 65534
	dir := testkit.Must(os.MkdirTemp("", "sandbox"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	binary := filepath.Join(dir, "sandbox.test")
	testkit.NoError(t, copyFile(binary))
	testkit.NoError(t, os.Chmod(dir, 0o755))
	tmp := filepath.Join(dir, "tmp")
	testkit.NoError(t, os.Mkdir(tmp, 0o700))
	testkit.NoError(t, os.Chown(tmp, nobody, nobody))
	cmd := exec.CommandContext(t.Context(), binary, "-test.v", "-test.short", "-test.timeout=5m")
	cmd.Dir, cmd.Env = tmp, append(os.Environ(), "TMPDIR="+tmp, "HOME="+tmp)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestKillEndsTheTree/namespace") && !strings.Contains(string(out), "this machine has no namespace") {
		t.Errorf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "--- SKIP") || strings.Contains(line, "this machine has no") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// copyFile copies the test binary to a place that other users can reach.
func copyFile(to string) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	in, err := os.Open(exe)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if closed := out.Close(); err == nil {
		err = closed
	}
	return err
}
