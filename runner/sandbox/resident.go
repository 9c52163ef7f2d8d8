package sandbox

import (
	"bytes"
	"os"
	"strconv"
)

// maxProcesses bounds the processes of a tree whose memory is counted.
const maxProcesses = 1000

// ResidentBytes returns the memory of a process and all its descendants. It is 0 if the system does not report it.
func ResidentBytes(pid int) int64 {
	var sum int64
	pids := []int{pid}
	for n := 0; n < len(pids) && n < maxProcesses; n++ {
		dir := "/proc/" + strconv.Itoa(pids[n])
		statm, err := os.ReadFile(dir + "/statm")
		if fields := bytes.Fields(statm); err == nil && len(fields) > 1 {
			pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
			sum += pages * int64(os.Getpagesize())
		}
		threads, err := os.ReadDir(dir + "/task")
		if err != nil {
			continue // it has ended
		}
		for _, thread := range threads {
			children, _ := os.ReadFile(dir + "/task/" + thread.Name() + "/children")
			for _, child := range bytes.Fields(children) {
				if pid, err := strconv.Atoi(string(child)); err == nil {
					pids = append(pids, pid)
				}
			}
		}
	}
	return sum
}
