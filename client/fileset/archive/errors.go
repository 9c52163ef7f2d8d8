package archive

import "errors"

// ErrArchive says that the stream is not a tar archive that Read accepts. The text of the returned error says why, and
// names the entry.
var ErrArchive = errors.New("archive: wrong tar archive")
