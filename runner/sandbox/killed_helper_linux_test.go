package sandbox

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestHelperIsKilledAtOnce: if the helper is killed before the program runs, Start notices immediately and does not
// wait for its time-out.
func TestHelperIsKilledAtOnce(t *testing.T) {
	if files, err := filepath.Glob("/proc/self/task/*/children"); err != nil || len(files) == 0 {
		t.Skip("the kernel does not list the children of a thread")
	}
	eachKind(t, func(t *testing.T, s *Sandbox) {
		ctx, cancel := context.WithCancel(t.Context())
		var killer sync.WaitGroup
		killer.Go(func() {
			for ctx.Err() == nil {
				killHelpers()
			}
		})
		defer killer.Wait()
		defer cancel()
		refused := 0
		for tries := 0; refused < 5; tries++ {
			if tries == 500 {
				t.Skipf("undecided: of %d helpers, %d were killed before their programs ran", tries, refused)
			}
			p, err := s.Start(shell("sleep 1000"))
			if err == nil {
				p.Kill()
				p.Wait()
				continue
			}
			refused++
			testkit.MustHold(t, !strings.Contains(err.Error(), "did not answer within"), "Start did not notice that its helper was killed", err)
		}
	})
}

// killHelpers kills the helpers that are children of this process.
func killHelpers() {
	files, _ := filepath.Glob("/proc/self/task/*/children")
	for _, file := range files {
		children, _ := os.ReadFile(file) // the thread may have ended
		for _, child := range strings.Fields(string(children)) {
			arguments, _ := os.ReadFile(filepath.Join("/proc", child, "cmdline"))
			if pid, err := strconv.Atoi(child); err == nil && strings.HasPrefix(string(arguments), "daybook-sandbox\x00") {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}
