package sandbox

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

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
