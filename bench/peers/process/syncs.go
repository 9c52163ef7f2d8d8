package process

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/daybookq/daybook/bench/rig"
)

// attachIn is how long strace may take to attach to all processes of a server.
const attachIn = 10 * time.Second

// Syncs returns how often a server's processes called fsync or fdatasync while f ran. It needs strace.
func Syncs(ctx context.Context, pid int, dir string, f func() error) (n int, err error) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		return 0, err
	}
	all, err := rig.Descendants(pid)
	if err != nil {
		return 0, err
	}
	path := filepath.Join(dir, "strace.out")
	args := []string{"-f", "-e", "trace=fsync,fdatasync", "-e", "signal=none", "-o", path}
	for id := range all {
		args = append(args, "-p", strconv.Itoa(id))
	}
	ctx, cancel := context.WithTimeout(ctx, attachIn)
	defer cancel()
	tracer := exec.CommandContext(ctx, strace, args...)
	tracer.Cancel = func() error { return tracer.Process.Signal(syscall.SIGINT) } // it detaches
	said, err := tracer.StderrPipe()
	if err != nil {
		return 0, err
	}
	if err := tracer.Start(); err != nil {
		return 0, err
	}
	defer os.Remove(path)
	attached, lines := 0, bufio.NewScanner(said)
	for attached < len(all) && lines.Scan() {
		if strings.Contains(lines.Text(), " attached") {
			attached++
		}
	}
	if attached == len(all) {
		err = f()
	} else {
		err = fmt.Errorf("strace attached to %d of %d processes: %s", attached, len(all), lines.Text())
	}
	cancel()
	for lines.Scan() { // strace must not wait for a reader
	}
	_ = tracer.Wait() // the signal ends it
	if err != nil {
		return 0, err
	}
	text, err := os.ReadFile(path)
	return len(syncCall.FindAll(text, -1)), err
}

// syncCall matches the beginning of a call. A call that another thread interrupted has a second line with "resumed".
var syncCall = regexp.MustCompile(`\b(fsync|fdatasync)\(`)
