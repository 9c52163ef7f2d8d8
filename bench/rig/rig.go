// Package rig freezes server processes, limits and measures their memory, and measures their processor time.
package rig

import (
	"fmt"
	"os"
	"strings"

	"github.com/daybookq/daybook/client/daybooktest"
)

// Resident returns the resident memory of the server in bytes, now and at its peak.
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
