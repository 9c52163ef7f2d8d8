//go:build !linux

package opsqueue

// quickAck does nothing: TCP_QUICKACK exists on Linux only. macOS and the BSDs have no option for one connection, and
// Windows has one that needs a change of the registry. Consumers there complete fewer chunks a second.
func quickAck(uintptr) {}
