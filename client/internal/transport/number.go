package transport

import (
	"net/http"
	"strconv"
)

const (
	headerSession = "Daybook-Session"
	headerSlot    = "Daybook-Session-Slot"
	headerNumber  = "Daybook-Session-Number"
)

// Number identifies a request of a session. The zero number means none.
type Number struct {
	Session string
	Slot    int
	Number  uint64
}

// set adds the headers for n to a request.
func (n Number) set(h http.Header) {
	h.Set(headerSession, n.Session)
	h.Set(headerSlot, strconv.Itoa(n.Slot))
	h.Set(headerNumber, strconv.FormatUint(n.Number, 10))
}
