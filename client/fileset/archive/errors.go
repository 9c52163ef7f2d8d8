package archive

import "errors"

// ErrArchive: the stream is not a tar archive that Read accepts. The text of the returned error gives the reason and the
// entry.
var ErrArchive = errors.New("archive: wrong tar archive")
