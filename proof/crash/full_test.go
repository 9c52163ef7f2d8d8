package crash

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/daybookq/daybook/internal/testkit"
)

// smallDisk mounts a tmpfs with size bytes.
func (l *lane) smallDisk(size int64) string {
	l.Helper()
	dir := filepath.Join(l.TempDir(), "disk")
	testkit.NoError(l, os.Mkdir(dir, 0o755))
	if err := syscall.Mount("daybook-crash", dir, "tmpfs", 0, fmt.Sprint("size=", size)); err != nil {
		testkit.MustHold(l, !*full, "mount a small tmpfs", err)
		l.Skipf("mount a small tmpfs: %v", err)
	}
	l.Cleanup(func() { testkit.Check(l, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

// filler is another program's file on the same disk.
type filler struct{ path string }

// leaveFree makes the file so large that at most free bytes are left.
func (f filler) leaveFree(free int64) error {
	file, err := os.OpenFile(f.path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	for chunk := int64(1 << 20); chunk >= 4096; {
		var st unix.Statfs_t
		if err := unix.Statfs(filepath.Dir(f.path), &st); err != nil {
			return err
		}
		over := int64(st.Bavail)*st.Bsize - free
		if over < chunk {
			chunk /= 2
			continue
		}
		info, err := file.Stat()
		if err != nil {
			return err
		}
		if err := unix.Fallocate(int(file.Fd()), 0, info.Size(), min(over/4096*4096, 64<<20)); errors.Is(err, syscall.ENOSPC) {
			chunk /= 2
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (f filler) remove() error { return os.Remove(f.path) }

// TestFullDisk fills the server's disk. First it fills the disk up to the reserve: the server refuses creates, and all
// other requests work. Then it fills the disk completely: nothing can be written. When there is space again, the server
// continues without help. A stop on a full disk ends with 0 or 13.
func TestFullDisk(t *testing.T) {
	l := newLane(t, 5)
	rounds := inFull(6, 1)
	for round := range rounds {
		l.fullDisk(round)
		l.progress("%d of %d rounds, %d jobs, %d operations checked", round+1, rounds, l.tally.Jobs, l.tally.Operations)
	}
	l.report(fmt.Sprint(2*rounds, " times a full disk"))
}

func (l *lane) fullDisk(round int) {
	dir := l.smallDisk(640 << 20) // the reserve is an eighth of this
	s := l.newTrial("full", filepath.Join(dir, "data"))
	if round%2 == 1 {
		l.useSmallFiles(s) // so that it flushes all the time
	}
	f := filler{filepath.Join(dir, "filler")}
	l.must(s, s.start())
	load := standardLoad
	load.backlog = 20_000
	c := newCrowd(s.u, load, "f", l.rng.Uint64())
	defer c.end()
	ended := func() int {
		s.h.mu.Lock()
		defer s.h.mu.Unlock()
		return s.h.count.Ended
	}
	l.wait(s, "there is a backlog", func() bool { return c.unfinished.Load() > 1000 })

	// Fill the disk up to the reserve.
	l.must(s, f.leaveFree(60<<20))
	refused := c.refused.Load()
	l.wait(s, "creates are refused", func() bool { return c.refused.Load() > refused+3 })
	acked, before := c.acked.Load(), ended()
	l.wait(s, "work goes on", func() bool { return ended() > before+100 })
	if n := c.acked.Load() - acked; n > int64(load.producers) { // each may have had a create that was accepted before
		l.Errorf("%d creates were acknowledged while creates are refused", n)
	}
	l.must(s, f.remove())
	l.wait(s, "creates come back", func() bool { return c.acked.Load() > acked+3 })
	if l.rng.IntN(2) == 0 {
		l.must(s, s.kill())
		l.must(s, s.start())
	}

	// Fill the disk completely, including the space that the server gives up.
	hold := l.between(time.Second, 3*time.Second)
	if *full {
		hold = l.between(2*time.Second, 15*time.Second) // longer than the interval of the store's flushes
	}
	for until := time.Now().Add(hold); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		l.must(s, f.leaveFree(0))
	}
	if round%3 == 2 { // a start on a full disk serves, or fails with a reason
		l.must(s, s.kill())
		if s.start() != nil {
			l.must(s, s.says("disk", "space"))
			l.must(s, s.kill())
			l.must(s, f.remove())
			l.must(s, s.start())
		} else {
			l.must(s, f.remove())
		}
	} else {
		l.must(s, f.remove())
	}
	l.awaitService(s, c, "disk", "space")
	l.must(s, f.leaveFree(0))
	l.must(s, l.stopOnFullDisk(s))
	l.must(s, f.remove())
	l.must(s, s.start())
	c.end()
	l.finish(s)
}

// exitFiles is the binary's exit code if files are the reason.
const exitFiles = 13

// stopOnFullDisk stops the server. If the stop cannot write its files, the exit code must say that files are the reason,
// and the log must say which.
func (l *lane) stopOnFullDisk(s *trial) error {
	err := s.stop()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != exitFiles {
		return err
	}
	l.progress("the server ended with 13 on a full disk")
	return s.says("space", "disk")
}

// awaitService waits until creates are acknowledged again. If the server has ended, its log must have one of the words,
// and it is started again.
func (l *lane) awaitService(s *trial, c *crowd, words ...string) {
	l.Helper()
	acked := c.acked.Load()
	l.wait(s, "creates come back", func() bool {
		if s.ended() {
			l.must(s, s.says(words...))
			l.progress("the server had ended: %v", s.server.Err())
			l.must(s, s.kill())
			l.must(s, s.start())
		}
		return c.acked.Load() > acked
	})
}
