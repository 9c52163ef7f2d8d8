//go:build !linux && !darwin

package serve

import "errors"

// fileLimit returns errors.ErrUnsupported. The server, which needs it, does not run on this system.
func fileLimit() (uint64, error) { return 0, errors.ErrUnsupported }
