// Package rig freezes server processes, and measures their memory and processor time.
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

// Freeze stops the process as SIGSTOP does. It returns when the kernel says that all threads are stopped. Thaw
// continues the process.
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

// Thaw continues a process that was frozen.
func Thaw(s *daybooktest.Process) error { return s.Signal(syscall.SIGCONT) }

// Resident returns the resident memory of the server in bytes: the present value and the peak.
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

// Written returns how many bytes the server has caused to be written to disks since it was started.
func Written(s *daybooktest.Process) (bytes int64, err error) {
	counts, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", s.Pid()))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(counts)) {
		if n, _ := fmt.Sscanf(line, "write_bytes: %d", &bytes); n == 1 {
			return bytes, nil
		}
	}
	return 0, fmt.Errorf("no write_bytes in %q", counts)
}

// ProcessorTime returns the processor time that the server has used so far, in nanoseconds as Linux counts them. The
// figures in /proc and in the server's metrics have steps of 10 ms.
func ProcessorTime(s *daybooktest.Process) (time.Duration, error) {
	const ofProcess = 2 // CPUCLOCK_SCHED of clock_getcpuclockid(3)
	var used unix.Timespec
	if err := unix.ClockGettime(int32(^s.Pid()<<3|ofProcess), &used); err != nil {
		return 0, fmt.Errorf("read the processor time of process %d: %w", s.Pid(), err)
	}
	return time.Duration(used.Nano()), nil
}
