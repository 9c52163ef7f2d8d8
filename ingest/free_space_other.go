//go:build !linux && !darwin

package ingest

import (
	"errors"
	"fmt"
)

// statfs returns errors.ErrUnsupported. The server does not run on this system.
func statfs(path string) (free, total uint64, err error) {
	return 0, 0, fmt.Errorf("statfs %s: %w", path, errors.ErrUnsupported)
}
