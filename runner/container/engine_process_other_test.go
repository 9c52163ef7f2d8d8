//go:build !linux

package container

import "syscall"

func ownGroup() *syscall.SysProcAttr  { return nil }
func asUser(int) *syscall.SysProcAttr { return nil }
