//go:build !linux

package opsqueue

// quickAck does nothing, because TCP_QUICKACK exists only on Linux. macOS and the BSDs lack an option for one connection.
// Windows has one that needs a change of the registry. Consumers on these systems complete fewer chunks per second.
func quickAck(uintptr) {}
