//go:build !linux && !darwin

package diskspace

import (
	"errors"
	"fmt"
)

// Free returns errors.ErrUnsupported. The server does not run on this system.
func Free(path string) (free, total uint64, err error) {
	return 0, 0, fmt.Errorf("statfs %s: %w", path, errors.ErrUnsupported)
}
