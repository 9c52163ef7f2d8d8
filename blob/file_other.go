//go:build !linux && !darwin

package blob

import (
	"errors"
	"os"
)

// The server does not run on this system, so nothing opens a directory of blobs.

const noFollow = 0

type fileID struct{ ctime int64 }

func duplicate(*os.File) (*os.File, error) { return nil, errors.ErrUnsupported }

func idOf(Address, *os.File) (fileID, bool, error) { return fileID{}, false, errors.ErrUnsupported }
