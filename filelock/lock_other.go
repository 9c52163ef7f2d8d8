//go:build !windows && (!unix || aix || solaris)

package filelock

import (
	"errors"
	"os"
)

// Lock returns errors.ErrUnsupported: without a lock, two servers could write to one directory. So no server starts on this
// system.
func Lock(*os.File) error { return errors.ErrUnsupported }

// Unlock returns errors.ErrUnsupported.
func Unlock(*os.File) error { return errors.ErrUnsupported }
