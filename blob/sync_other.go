//go:build !linux

package blob

import (
	"errors"
	"os"
)

// syncFS returns errors.ErrUnsupported, because other systems have no call that waits for all files of a file system
// and reports their errors. There canTrustSyncFS returns false, and each file is synced individually. On macOS
// (*os.File).Sync is F_FULLFSYNC, which also empties the cache of the disk.
func syncFS(*os.File) error { return errors.ErrUnsupported }

// canTrustSyncFS reports whether syncfs returns the errors of all earlier writes in the file system of a directory.
func canTrustSyncFS(string) bool { return false }

// startFlush does nothing: only Linux can begin to write a part of a file without waiting for it.
func startFlush(_ *os.File, _, _ int64) {}
