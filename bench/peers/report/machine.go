package report

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/daybookq/daybook/bench/peers/measure"
)

// Machine describes the machine. dir is the directory of the servers' files.
func Machine(dir string) (m measure.Machine, err error) {
	m.Cores = runtime.NumCPU()
	m.Processor = field("/proc/cpuinfo", "model name")
	var kib int
	if _, err := fmt.Sscanf(field("/proc/meminfo", "MemTotal"), "%d", &kib); err == nil {
		m.MemoryGiB = (kib + 1<<19) >> 20
	}
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return m, err
	}
	m.Kernel = strings.TrimSpace(string(kernel))
	system, err := exec.Command("findmnt", "-n", "-o", "FSTYPE", "-T", dir).Output()
	if err != nil {
		return m, fmt.Errorf("look for the file system of %s: %w", dir, err)
	}
	m.Directory = strings.TrimSpace(string(system))
	if m.SyncMicros, err = syncMicros(dir); err != nil {
		return m, err
	}
	m.Load[0], err = LoadAverage()
	return m, err
}

// field returns the value of the first line of a file that begins with a name, or "" if there is none.
func field(path, name string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// LoadAverage returns the load average of the last minute.
func LoadAverage() (load float64, err error) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscan(string(text), &load)
	return load, err
}

// syncMicros measures how long it takes to append to a file and to sync it.
func syncMicros(dir string) (micros float64, err error) {
	f, err := os.Create(filepath.Join(dir, "sync"))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	line := make([]byte, 128)
	var times []time.Duration
	for range 300 {
		began := time.Now()
		if _, err := f.Write(line); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	return float64(times[len(times)/2].Nanoseconds()) / 1000, nil
}
