package sandbox

import (
	"os/exec"
	"runtime"
	"sync"
)

// A process gets its Pdeathsig when the thread that has started it ends, not when the whole runner does. So one thread
// starts all processes, and lives as long as the runner. Go starts one process at a time anyway.
var (
	starter sync.Once
	starts  = make(chan func())
)

// startOnThread starts a command on the thread that lives as long as the runner.
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
