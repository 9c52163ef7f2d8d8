// Package enginetest cleans up after a container engine that a test has started.
//
// # Files
//
//	remove_linux.go  processes, mounts and the directory
//	remove_other.go  the directory; no test starts an engine on other systems
package enginetest
