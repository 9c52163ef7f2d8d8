package container

import "syscall"

// ownGroup keeps terminal signals away from an engine, because TestMain stops it. The kernel kills the engine if the test
// process is killed.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// asUser does the same as ownGroup, and runs the process as another user.
func asUser(id int) *syscall.SysProcAttr {
	attributes := ownGroup()
	attributes.Credential = &syscall.Credential{Uid: uint32(id), Gid: uint32(id), Groups: []uint32{}}
	return attributes
}
