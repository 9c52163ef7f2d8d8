package rig

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/daybookq/daybook/client/daybooktest"
)

// Freeze stops the process with SIGSTOP. It returns when the kernel reports that all threads are stopped. Thaw continues
// the process.
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

// Thaw continues a frozen process.
func Thaw(s *daybooktest.Process) error { return s.Signal(syscall.SIGCONT) }

// ProcessorTime returns the processor time that a process has used so far, without its children's, in nanoseconds as Linux counts
// them. The figures in /proc and in the server's metrics have steps of 10 ms.
func ProcessorTime(pid int) (time.Duration, error) {
	const ofProcess = 2 // CPUCLOCK_SCHED of clock_getcpuclockid(3)
	var used unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|ofProcess), &used); err != nil {
		return 0, fmt.Errorf("read the processor time of process %d: %w", pid, err)
	}
	return time.Duration(used.Nano()), nil
}
