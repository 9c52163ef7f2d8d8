//go:build !unix || aix || solaris

package journal

import (
	"errors"
	"fmt"
	"io"
)

// LockDir returns errors.ErrUnsupported: without a lock, two servers could write to one directory. So no server starts on
// this system.
func LockDir(dir string) (io.Closer, error) {
	return nil, fmt.Errorf("lock directory %s: %w", dir, errors.ErrUnsupported)
}
