// Package rig starts the nodes of a cluster, and limits, freezes and measures processes: their memory, processor time,
// descriptors and writes.
package rig

import (
	"fmt"
	"os"
	"strings"
)

// Resident returns the resident memory of a process in bytes, now and at its peak.
func Resident(pid int) (now, peak int64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
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

// Descriptors returns how many descriptors a process has open.
func Descriptors(pid int) (int, error) {
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(files), err
}

// Written returns how many bytes a process has caused to be written to disks since it was started.
func Written(pid int) (bytes int64, err error) {
	counts, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
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
