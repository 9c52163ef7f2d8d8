//go:build !linux

package process

import "syscall"

// endWithParent does nothing: only Linux can end a process with its parent.
func endWithParent(*syscall.SysProcAttr) {}
