package dirlock

import "errors"

// ErrLocked is the error of Lock for a directory that is locked: by another process, or by this one.
var ErrLocked = errors.New("somebody else has locked the directory")
