//go:build unix && !aix && !solaris

package filelock

import (
	"errors"
	"os/exec"
	"sync"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestLockWhileProcessesStart: a lock ends when it is closed, although processes that are being started have the file of
// the directory until they execute their programs.
func TestLockWhileProcessesStart(t *testing.T) {
	dir := t.TempDir()
	var starters sync.WaitGroup
	defer starters.Wait()
	done := make(chan struct{})
	defer close(done)
	for range 4 {
		starters.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					if err := exec.Command("true").Run(); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	for range 3000 {
		l := testkit.Must(Open(dir))(t)
		_, err := Open(dir)
		testkit.MustHold(t, errors.Is(err, ErrLocked), err)
		testkit.NoError(t, l.Close())
	}
}
