//go:build !linux && !darwin

package disk

import "errors"

// Free returns errors.ErrUnsupported.
func Free(string) (int64, error) { return 0, errors.ErrUnsupported }

// Total returns errors.ErrUnsupported.
func Total(string) (int64, error) { return 0, errors.ErrUnsupported }
