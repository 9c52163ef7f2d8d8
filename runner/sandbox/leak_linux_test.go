package sandbox

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// descriptors returns the number of this process's open descriptors.
func descriptors(t testing.TB) int {
	t.Helper()
	runtime.GC()
	entries := testkit.Must(os.ReadDir("/proc/self/fd"))(t)
	return len(entries)
}

// children returns the number of this process's children, including those that have ended and were not reaped.
func children(t testing.TB) (n int) {
	t.Helper()
	files := testkit.Must(filepath.Glob("/proc/[0-9]*/stat"))(t)
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(line[strings.LastIndexByte(string(line), ')')+1:]))
		if fields[1] == strconv.Itoa(os.Getpid()) {
			n++
		}
	}
	return n
}

// TestNothingIsLeftOver starts many processes: 2,000 in the best kind, and fewer in the other kinds and in short tests.
func TestNothingIsLeftOver(t *testing.T) {
	eachKind(t, func(t *testing.T, s *Sandbox) {
		n := 2000
		if testing.Short() || testkit.Race || s.tree.kind != namespace {
			n = 500
		}
		once := func() {
			p := testkit.Must(s.Start(Command{Argv: []string{"/bin/true"}}))(t)
			exit, err := p.Wait()
			testkit.MustHold(t, exit.OK() && err == nil, exit, err)
		}
		once()
		fds, processes, goroutines := descriptors(t), children(t), runtime.NumGoroutine()
		for range n {
			once()
		}
		testkit.Equal(t, descriptors(t), fds, "descriptors", "before")
		testkit.Equal(t, children(t), processes, "children", "before")
		testkit.Eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= goroutines })
		if s.tree.cgroups != nil {
			left, err := filepath.Glob(filepath.Join(s.tree.cgroups.dir, "daybook-"+strconv.Itoa(os.Getpid())+"-*"))
			testkit.Holds(t, err == nil && len(left) == 0, "cgroups are left", left, err)
		}
	})
}
