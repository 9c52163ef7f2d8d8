package transport

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode"

	"github.com/daybookq/daybook/client/problem"
	"github.com/daybookq/daybook/job"
)

// IfVersion is a condition of a change of a handler or fileset: the newest version has this number, or, with 0, the name
// has no version. If the condition does not hold, nothing is changed, and the error is ErrVersionDiffers. The numbers of
// a name are never used again, even if the handler or fileset was deleted and stored again.
//
// If the newest version already has the content of the change, the change succeeds, so that it can be repeated. With 0 it
// fails in this case: ErrVersionDiffers may then mean that an answer was lost, and the first request stored the version.
type IfVersion int

// Require adds the headers of a change to a request: what it requires, and who makes it.
func (c *Conn) Require(r *Request, only []IfVersion) {
	r.Header = http.Header{}
	if c.By != "" {
		r.Header.Set("Daybook-By", c.By)
		if err := job.CheckText("By", c.By, 1, job.MaxByBytes); err != nil {
			r.Err = fmt.Errorf("%w: %w", problem.ErrBadRequest, err)
		} else if strings.ContainsFunc(c.By, unicode.IsControl) { // net/http sends no such header, and would blame the connection
			r.Err = fmt.Errorf("%w: By has a control character", problem.ErrBadRequest)
		}
	}
	for _, version := range only {
		switch {
		case version < 0:
			r.Err = fmt.Errorf("%w: IfVersion is %d; the first version of a name is 1", problem.ErrBadRequest, version)
		case version == 0:
			r.Header.Set("If-None-Match", "*")
		default:
			r.Header.Set("If-Match", strconv.Quote(strconv.Itoa(int(version))))
		}
	}
}
