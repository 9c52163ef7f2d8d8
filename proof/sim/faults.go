package sim

import (
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

func (s *server) injected() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults
}

// journalFault is called before each of the journal's calls to its disk. It may wait, end the life, or return an error,
// with which the call then fails.
func (s *server) journalFault(call, path string) error {
	if s.isGone() {
		return nil
	}
	s.mu.Lock()
	s.calls++
	crash, up := s.calls == s.plan.call, s.up
	err := s.trouble(s.calls, call, path)
	var wait time.Duration
	if call == "fsync" {
		wait = time.Duration(20+s.delays.IntN(200)) * time.Microsecond
		if s.plan.slow && s.delays.IntN(20) == 0 {
			wait = time.Duration(s.delays.IntN(4000)) * time.Millisecond
		}
	}
	s.mu.Unlock()
	if crash {
		s.end(s.plan.ending)
		return nil
	}
	if up && wait > 0 { // a start does not wait, since no user could use the time
		time.Sleep(wait)
	}
	return err
}

// trouble returns the error with which a call fails, or nil. Now and then the disk fails or is full, for one call or for
// some seconds. The caller holds s.mu.
func (s *server) trouble(n int, call, path string) error {
	now := time.Now()
	if s.plan.trouble > 0 && n%s.plan.trouble == 0 {
		s.troubled = pick[error](s.random, syscall.EIO, syscall.ENOSPC)
		s.troubleUntil = now
		if s.random.IntN(2) == 0 {
			s.troubleUntil = now.Add(time.Duration(s.random.IntN(5000)) * time.Millisecond)
		}
	} else if !now.Before(s.troubleUntil) || s.random.IntN(4) == 0 {
		return nil
	}
	// On a full disk, calls that change no size succeed.
	if s.troubled == syscall.ENOSPC && call != "write" && call != "create" {
		return nil
	}
	s.faults++
	return &os.PathError{Op: call, Path: path, Err: s.troubled}
}

// storeFault is called before each of the store's calls to its file system. It injects errors into writes of tables only.
// An error in the manifest would end the process, which is the same as a kill.
func (s *server) storeFault(op errorfs.Op) error {
	if s.isGone() || op.Kind.ReadOrWrite() == errorfs.OpIsRead {
		return nil
	}
	s.mu.Lock()
	s.storeCalls++
	crash := s.storeCalls == s.plan.storeCall
	// Pebble retries immediately, and its retries count as calls, too. Without this bound it would retry forever while no
	// time passes.
	if s.plan.trouble > 0 && s.storeCalls%(s.plan.trouble/4+5) == 0 && s.storeTrouble < 3 {
		s.storeTrouble++
		s.storeFaults = 1 + s.storeRandom.IntN(4)
	}
	var err error
	if s.storeFaults > 0 && s.up && strings.HasSuffix(op.Path, ".sst") && op.Kind != errorfs.OpFileClose && op.Kind != errorfs.OpRemove {
		s.storeFaults--
		s.faults++
		err = &os.PathError{Op: "store write", Path: op.Path, Err: syscall.ENOSPC}
	}
	s.mu.Unlock()
	if crash {
		s.end(s.plan.ending)
		return nil
	}
	return err
}

// statfs reports a small disk, which is full during a period of ENOSPC.
func (s *server) statfs(string) (free, total uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	const size = 1 << 20
	if !s.ended && s.troubled == syscall.ENOSPC && time.Now().Before(s.troubleUntil) {
		return 0, size, nil
	}
	return size, size, nil
}
