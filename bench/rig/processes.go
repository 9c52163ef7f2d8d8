package rig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tick is the unit of times in /proc, which is the same on all systems that Go runs on.
const tick = 10 * time.Millisecond

// stat is a part of /proc/PID/stat.
type stat struct {
	parent int
	used   time.Duration // its processor time, including its ended children's
}

func readStat(pid string) (stat, error) {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return stat{}, err
	}
	// The second field is the program's name in parentheses. The name may contain any character.
	end := strings.LastIndexByte(string(text), ')')
	fields := strings.Fields(string(text[end+1:]))
	if end < 0 || len(fields) < 15 {
		return stat{}, fmt.Errorf("/proc/%s/stat cannot be read: %q", pid, text)
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return stat{}, err
	}
	s := stat{parent: parent}
	for _, field := range fields[11:15] { // utime, stime, cutime, cstime
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return stat{}, err
		}
		s.used += time.Duration(ticks) * tick
	}
	return s, nil
}

// Descendants returns the processor time of a process and of each of its descendants, by process id.
func Descendants(pid int) (map[int]time.Duration, error) {
	own, err := readStat(strconv.Itoa(pid))
	if err != nil {
		return nil, err
	}
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	children, used := map[int][]int{}, map[int]time.Duration{}
	for _, entry := range entries {
		id, err := strconv.Atoi(filepath.Base(entry))
		if err != nil {
			continue
		}
		s, err := readStat(filepath.Base(entry))
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended in between
		}
		if err != nil {
			return nil, err
		}
		children[s.parent] = append(children[s.parent], id)
		used[id] = s.used
	}
	all := map[int]time.Duration{pid: own.used}
	for open := children[pid]; len(open) > 0; {
		id := open[0]
		all[id] = used[id]
		open = append(open[1:], children[id]...)
	}
	return all, nil
}
