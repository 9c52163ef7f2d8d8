package sandbox

import (
	"os/exec"
	"runtime"
	"sync"
)

// The kernel sends a process its Pdeathsig when the thread that started it ends, not when the whole runner ends. So one
// thread starts all processes, and lives as long as the runner. Go starts only one process at a time anyway.
var (
	starter sync.Once
	starts  = make(chan func())
)

// startOnThread starts a command on that thread.
func startOnThread(cmd *exec.Cmd) error {
	starter.Do(func() {
		go func() {
			runtime.LockOSThread()
			for start := range starts {
				start()
			}
		}()
	})
	started := make(chan error, 1)
	starts <- func() { started <- cmd.Start() }
	return <-started
}
