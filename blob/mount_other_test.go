//go:build !linux

package blob

import "errors"

// Only Linux has tmpfs, so the tests that need it are skipped.

func mountTmpfs(dir, size string) error { return errors.ErrUnsupported }
func remountReadOnly(dir string) error  { return errors.ErrUnsupported }
func unmount(dir string) error          { return errors.ErrUnsupported }
