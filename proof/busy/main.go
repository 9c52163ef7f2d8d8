// Command busy loads a machine for a while, so that tests can be run on a busy one: run `make busy` in one shell and
// `make test` in another.
//
// It spins on the processor, writes and syncs files, and starts processes, like a build server on the machine of a test
// run. Its load and its time are bounded, and it removes its files. It is for development only, and not part of the
// server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The limits: the load must slow a machine down, but leave it usable.
const (
	maxEach  = 64
	maxTime  = 2 * time.Hour
	diskSize = 8 << 20 // of each writer's file
)

func main() {
	spin := flag.Int("spin", 8, "goroutines that spin on the processor")
	disk := flag.Int("disk", 2, "goroutines that write a file of 8 MiB again and again, and sync it")
	fork := flag.Int("fork", 1, "goroutines that start processes")
	length := flag.Duration("for", 10*time.Minute, "how long to run")
	dir := flag.String("dir", os.TempDir(), "where the files are written")
	flag.Parse()
	if err := run(*spin, *disk, *fork, *length, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "busy:", err)
		os.Exit(1)
	}
}

func run(spin, disk, fork int, length time.Duration, dir string) (err error) {
	for _, n := range []int{spin, disk, fork} {
		if n < 0 || n > maxEach {
			return fmt.Errorf("cannot start %d goroutines of a kind; use 0 to %d", n, maxEach)
		}
	}
	if length <= 0 || length > maxTime {
		return fmt.Errorf("cannot run for %v; use more than 0, up to %v", length, maxTime)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	if dir, err = os.MkdirTemp(dir, "daybook-busy-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	fmt.Printf("busy: %d spinning, %d writing and syncing below %s, %d starting processes, for %v\n", spin, disk, dir, fork, length)
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed error
	each := func(n int, work func(i int) error) {
		for i := range n {
			all.Go(func() {
				for ctx.Err() == nil {
					if err := work(i); err != nil && ctx.Err() == nil {
						mu.Lock()
						failed = errors.Join(failed, err)
						mu.Unlock()
						return
					}
				}
			})
		}
	}
	each(spin, func(int) error {
		for end := time.Now().Add(10 * time.Millisecond); time.Now().Before(end); {
		}
		return nil
	})
	data := make([]byte, diskSize)
	each(disk, func(i int) error {
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		return errors.Join(err, f.Sync(), f.Close())
	})
	each(fork, func(int) error { return exec.CommandContext(ctx, "true").Run() })
	all.Go(func() {
		for ctx.Err() == nil {
			select {
			case <-time.After(10 * time.Second):
				fmt.Println("busy: load", load())
			case <-ctx.Done():
			}
		}
	})
	all.Wait()
	return failed
}

// load returns the kernel's load average, if the kernel has one.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}
