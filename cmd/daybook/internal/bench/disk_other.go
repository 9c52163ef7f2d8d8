//go:build !linux && !darwin

package bench

import "errors"

// The server does not run on this system, so bench starts none.

func freeSpace(string) (uint64, error) { return 0, errors.ErrUnsupported }
func sameDisk(string, string) bool     { return false }
func isWritable(string) bool           { return false }
