// Package rig does to server processes what tests of failures need, and measures them.
package rig

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/daybookq/daybook/client/daybooktest"
)

// Freeze stops the process as SIGSTOP does, and returns once the kernel says that all of it stands still. Thaw has it
// go on.
func Freeze(s *daybooktest.Process) error {
	if err := s.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.Pid()))
		if err != nil {
			return err
		}
		if _, rest, ok := strings.Cut(string(stat), ") "); ok && strings.HasPrefix(rest, "T") {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
}

// Thaw has a process that was frozen go on.
func Thaw(s *daybooktest.Process) error { return s.Signal(syscall.SIGCONT) }

// Resident returns the resident memory of the server in bytes, now and at its highest.
func Resident(s *daybooktest.Process) (now, peak int64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Pid()))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(status)) {
		var kb int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kb); n == 1 {
			now = kb << 10
		}
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kb); n == 1 {
			peak = kb << 10
		}
	}
	return now, peak, nil
}
