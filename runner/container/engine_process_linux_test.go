package container

import "syscall"

// ownGroup keeps the signals of a terminal from an engine, which TestMain ends. If the test process is killed, the engine
// ends too.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// asUser returns what ownGroup does, for a process of another user.
func asUser(id int) *syscall.SysProcAttr {
	attributes := ownGroup()
	attributes.Credential = &syscall.Credential{Uid: uint32(id), Gid: uint32(id), Groups: []uint32{}}
	return attributes
}
