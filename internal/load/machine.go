package load

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Machine describes a machine in reports.
type Machine struct {
	Processor string `json:"processor"`
	Cores     int    `json:"cores"`
	Kernel    string `json:"kernel"`
}

// ReadMachine describes this machine from /proc, which exists only on Linux.
func ReadMachine() (m Machine, err error) {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return m, err
	}
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	m.Cores, m.Kernel = runtime.NumCPU(), strings.TrimSpace(string(kernel))
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			m.Processor = strings.TrimSpace(value)
		}
	}
	return m, err
}

// Average returns how many processes have needed a processor in the last minute, from /proc.
func Average() (average float64, err error) {
	text, err := os.ReadFile("/proc/loadavg")
	if err == nil {
		_, err = fmt.Sscan(string(text), &average)
	}
	return average, err
}

// Processors is the time of all processors of a machine since it started.
type Processors struct {
	Busy   time.Duration // running programs and the kernel
	Waits  time.Duration // idle, while a program waited for a disk
	Stolen time.Duration // used by other machines of the same host
	Total  time.Duration
}

// Since returns the difference between two readings.
func (p Processors) Since(before Processors) Processors {
	return Processors{p.Busy - before.Busy, p.Waits - before.Waits, p.Stolen - before.Stolen, p.Total - before.Total}
}

// statTick is the unit of /proc/stat.
const statTick = 10 * time.Millisecond

// ReadProcessors reads /proc/stat, which exists only on Linux.
func ReadProcessors() (p Processors, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return p, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line) // cpu user nice system idle iowait irq softirq steal …
	if len(fields) < 9 || fields[0] != "cpu" {
		return p, fmt.Errorf("/proc/stat cannot be read: its first line is %q", line)
	}
	var ticks [8]time.Duration
	for i := range ticks {
		n, err := strconv.ParseInt(fields[i+1], 10, 64)
		if err != nil {
			return p, fmt.Errorf("/proc/stat cannot be read: %w", err)
		}
		ticks[i] = time.Duration(n) * statTick
		p.Total += ticks[i]
	}
	p.Busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]
	p.Waits, p.Stolen = ticks[4], ticks[7]
	return p, nil
}
