package web

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
)

// AnswerTagged answers a GET with a document and its entity tag. If the client sends this tag, the answer is 304
// without a document. A page that asks every second usually learns only that nothing has changed. The tag is a digest
// of basis, so it stays the same after a restart. It is weak, because the same document can be sent compressed or not.
func AnswerTagged(c echo.Context, kind string, text, basis []byte) error {
	sum := sha256.Sum256(basis)
	return AnswerWithTag(c, kind, text, `W/"`+base64.RawURLEncoding.EncodeToString(sum[:12])+`"`)
}

// AnswerWithTag is AnswerTagged with a tag that the caller chooses.
func AnswerWithTag(c echo.Context, kind string, text []byte, tag string) error {
	h := c.Response().Header()
	h["Etag"] = []string{tag}
	h["Cache-Control"] = []string{"no-cache"} // the client must ask each time
	if NamesTag(c.Request().Header["If-None-Match"], tag) {
		c.Response().WriteHeader(http.StatusNotModified)
		return nil
	}
	return Answer(c, http.StatusOK, kind, text)
}

// NamesTag reports whether an If-None-Match header has the tag. It compares weakly, as RFC 9110 requires.
func NamesTag(header []string, tag string) bool {
	tag = strings.TrimPrefix(tag, "W/")
	for _, list := range header {
		for item := range strings.SplitSeq(list, ",") { // the server's tags have no comma, so parts of other tags match nothing
			if item = strings.TrimSpace(item); item == "*" || strings.TrimPrefix(item, "W/") == tag {
				return true
			}
		}
	}
	return false
}
