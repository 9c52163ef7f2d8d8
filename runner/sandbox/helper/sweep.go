//go:build linux

package helper

import "syscall"

// sweep ends all descendants of this process. It is a subreaper, so a descendant whose parent ends becomes its child,
// and none can escape.
func sweep() {
	for {
		left := descendants(syscall.Getpid())
		for _, pid := range left {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		for {
			// If a process was killed, wait for at least one child, and reap all that have ended.
			options := syscall.WNOHANG
			if len(left) > 0 {
				options, left = 0, nil
			}
			pid, err := syscall.Wait4(-1, nil, options, nil)
			if err == syscall.EINTR {
				continue
			}
			if err != nil {
				return // no child is left
			}
			if pid == 0 {
				// A process that was just killed may have left new children. If /proc does not show them yet, this
				// pause avoids spinning.
				syscall.Nanosleep(&syscall.Timespec{Nsec: 1_000_000}, nil)
				break
			}
		}
	}
}

// descendants returns all descendants of a process that /proc shows.
func descendants(root int) []int {
	children := map[int][]int{}
	for _, pid := range processes() {
		if parent := parentOf(pid); parent > 0 {
			children[parent] = append(children[parent], pid)
		}
	}
	found := children[root]
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i]]...)
	}
	return found
}

// processes returns the ids of all processes.
func processes() (pids []int) {
	dir, err := syscall.Open("/proc", syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer syscall.Close(dir)
	buf := make([]byte, 32<<10)
	for {
		n, err := syscall.ReadDirent(dir, buf)
		if err != nil || n <= 0 {
			return pids
		}
		_, _, names := syscall.ParseDirent(buf[:n], -1, nil)
		for _, name := range names {
			if pid, ok := decimal(name); ok {
				pids = append(pids, pid)
			}
		}
	}
}

// parentOf returns the parent of a process, or 0.
func parentOf(pid int) int {
	fd, err := syscall.Open("/proc/"+text(pid)+"/stat", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer syscall.Close(fd)
	var buf [512]byte
	n, err := syscall.Read(fd, buf[:])
	if err != nil || n <= 0 {
		return 0
	}
	// 123 (a name, which may have parentheses) S 1 …
	line := string(buf[:n])
	at := len(line) - 1
	for at >= 0 && line[at] != ')' {
		at--
	}
	if at < 0 || len(line) < at+5 {
		return 0
	}
	line = line[at+4:]
	for i := range len(line) {
		if line[i] == ' ' {
			parent, _ := decimal(line[:i])
			return parent
		}
	}
	return 0
}

func decimal(s string) (n int, ok bool) {
	if s == "" || len(s) > 9 {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int(s[i]-'0')
	}
	return n, true
}

func text(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return text(n/10) + string(rune('0'+n%10))
}
