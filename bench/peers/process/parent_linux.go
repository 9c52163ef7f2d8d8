package process

import "syscall"

// endWithParent makes the kernel end the process when the thread that started it ends.
func endWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
