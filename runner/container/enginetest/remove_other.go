//go:build !linux

package enginetest

import "os"

// Remove removes a directory.
func Remove(dir string) error { return os.RemoveAll(dir) }
