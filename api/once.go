package api

import (
	"crypto/sha256"
	"fmt"
	"unicode"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/job"
)

const (
	headerKey      = "Idempotency-Key"
	headerReplayed = "Idempotency-Replayed"
)

// once reads the idempotency key of a request, which is looked up among those of its kind and of a client or runner. A repeat is known by
// the digest of all that decides about the answer: path, query, kind and content of the body, and what the client prefers.
func once(c echo.Context, kind, who string, body []byte) (o job.Once, err error) {
	r := c.Request()
	values := r.Header[headerKey]
	if len(values) == 0 {
		return o, nil
	}
	key := values[0]
	if len(values) > 1 {
		return o, badRequest(headerKey, headerKey+" is there twice")
	}
	if err := job.CheckText(headerKey, key, 1, job.MaxKeyBytes); err != nil {
		return o, badField(headerKey, err)
	}
	for _, char := range key {
		if unicode.IsControl(char) {
			return o, badRequest(headerKey, headerKey+" holds a control character")
		}
	}
	o.Scope, o.Key = kind+" "+who, key
	h := sha256.New()
	fmt.Fprintf(h, "%s %s?%s\n%t %t\n", r.Method, r.URL.Path, r.URL.RawQuery, isNDJSON(r), prefersEach(r))
	h.Write(body)
	copy(o.Digest[:], h.Sum(nil))
	return o, nil
}

// setReplayed marks the answer to a repeated request.
func setReplayed(c echo.Context, replayed bool) {
	if replayed {
		c.Response().Header().Set(headerReplayed, "true")
	}
}
