package api

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
)

// answerTagged answers a GET with a document and a tag of it, or, when the client names that tag, with 304 and nothing:
// a page that looks every second mostly learns that nothing has changed. The tag is made from the bytes of basis, so
// that it holds after a restart; it is weak, since the same document may go out compressed.
func answerTagged(c echo.Context, kind string, text, basis []byte) error {
	sum := sha256.Sum256(basis)
	tag := `W/"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
	h := c.Response().Header()
	h["Etag"] = []string{tag}
	h["Cache-Control"] = []string{"no-cache"} // ask each time
	if namesTag(c.Request().Header["If-None-Match"], tag) {
		c.Response().WriteHeader(http.StatusNotModified)
		return nil
	}
	return answer(c, http.StatusOK, kind, text)
}

// namesTag reports whether an If-None-Match names a tag, compared weakly as RFC 9110 has it.
func namesTag(header []string, tag string) bool {
	tag = strings.TrimPrefix(tag, "W/")
	for _, list := range header {
		for item := range strings.SplitSeq(list, ",") { // our tags hold no comma; of others', parts are compared in vain
			if item = strings.TrimSpace(item); item == "*" || strings.TrimPrefix(item, "W/") == tag {
				return true
			}
		}
	}
	return false
}
