package transport

import (
	"net/http"
	"strconv"
)

// IfVersion is what a change of a handler or fileset requires: that the newest version has this number, or with 0 that
// there is none of the name. Otherwise nothing is changed, and the error is ErrVersionDiffers. A version is never the
// newest one twice, also if the handler or fileset was deleted and stored again.
//
// A change that is made already is not refused, so that it can be repeated. With 0 it is: ErrVersionDiffers may then mean
// that an answer was lost and the first request stored the version.
type IfVersion int

// Requires returns the headers of a change: what it requires, and who makes it.
func (c *Conn) Requires(only []IfVersion) http.Header {
	h := http.Header{}
	if c.By != "" {
		h.Set("Daybook-By", c.By)
	}
	for _, version := range only {
		if version == 0 {
			h.Set("If-None-Match", "*")
		} else {
			h.Set("If-Match", strconv.Quote(strconv.Itoa(int(version))))
		}
	}
	return h
}
