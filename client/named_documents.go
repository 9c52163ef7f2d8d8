package client

import "github.com/daybookq/daybook/client/internal/transport"

// IfVersion is a condition of a change of a handler or fileset: the newest version has this number, or, with 0, the name
// has no version. If the condition does not hold, nothing is changed, and the error is ErrVersionDiffers. The numbers of
// a name are never used again, even if the handler or fileset was deleted and stored again.
//
// If the newest version already has the content of the change, the change succeeds, so that it can be repeated. With 0 it
// fails in this case: ErrVersionDiffers may then mean that an answer was lost, and the first request stored the version.
type IfVersion = transport.IfVersion
