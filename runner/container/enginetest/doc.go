// Package enginetest removes what a container engine of a test leaves behind.
//
// # Files
//
//	remove_linux.go  its processes, mounts and directory
//	remove_other.go  no test starts an engine on other systems
package enginetest
