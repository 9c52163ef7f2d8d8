//go:build !windows && (!unix || aix || solaris)

package filelock

import (
	"errors"
	"os"
)

// Lock returns errors.ErrUnsupported. This system has no locks that end with the process.
func Lock(*os.File) error { return errors.ErrUnsupported }

// Unlock returns errors.ErrUnsupported.
func Unlock(*os.File) error { return errors.ErrUnsupported }
