package sandbox

import (
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
