//go:build !unix || aix || solaris

package dirlock

import (
	"errors"
	"os"
)

// Lock says that nobody knows who uses a directory. The error is errors.ErrUnsupported.
func Lock(string) (*os.File, error) { return nil, errors.ErrUnsupported }
