package client

import "github.com/daybookq/daybook/client/internal/transport"

// IfVersion is what a change of a handler or fileset requires: that the newest version has this number, or with 0 that
// there is none of the name. Otherwise nothing is changed, and the error is ErrVersionDiffers. A version is never the
// newest one twice, also if the handler or fileset was deleted and stored again.
//
// A change that is made already is not refused, so that it can be repeated. With 0 it is: ErrVersionDiffers may then mean
// that an answer was lost and the first request stored the version.
type IfVersion = transport.IfVersion
