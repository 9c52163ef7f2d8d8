package report

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/daybookq/daybook/bench/peers/measure"
	"github.com/daybookq/daybook/internal/load"
)

// Machine describes the machine. dir is the directory of the servers' files.
func Machine(dir string) (m measure.Machine, err error) {
	if m.Machine, err = load.ReadMachine(); err != nil {
		return m, err
	}
	memory, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return m, err
	}
	var kib int
	if _, err := fmt.Sscanf(string(memory), "MemTotal: %d", &kib); err == nil {
		m.MemoryGiB = (kib + 1<<19) >> 20
	}
	system, err := exec.Command("findmnt", "-n", "-o", "FSTYPE", "-T", dir).Output()
	if err != nil {
		return m, fmt.Errorf("look for the file system of %s: %w", dir, err)
	}
	m.Directory = strings.TrimSpace(string(system))
	syncs := load.NewLatencies()
	if err := (load.Disk{Dir: dir, Bytes: 128, For: 300 * time.Millisecond}).Run(context.Background(), func(s load.Sync) { syncs.Add(s.Took) }); err != nil {
		return m, err
	}
	m.SyncMicros = 1000 * syncs.Summary().P50
	m.Load[0], err = load.Average()
	return m, err
}
