//go:build unix && !aix && !solaris

package script

import (
	"fmt"
	"os"
	"syscall"
)

// socketPair returns the two ends of a connection. far is for the host.
func socketPair() (near, far *os.File, err error) {
	syscall.ForkLock.RLock() // no process may inherit them
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, fmt.Errorf("connect a script: socketpair: %w", err)
	}
	if err := syscall.SetNonblock(fds[0], true); err != nil {
		syscall.Close(fds[0])
		syscall.Close(fds[1])
		return nil, nil, fmt.Errorf("connect a script: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "script"), os.NewFile(uintptr(fds[1]), "script"), nil
}
