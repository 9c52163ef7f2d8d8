package api

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"unicode"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/job"
)

const (
	headerKey      = "Idempotency-Key"
	headerReplayed = "Idempotency-Replayed"
	headerSession  = "Daybook-Session"
	headerSlot     = "Daybook-Session-Slot"
	headerNumber   = "Daybook-Session-Number"
)

// onceHeaders are the headers that prevent the server from carrying out a repeated request again.
var onceHeaders = [...]string{headerKey, headerSession, headerSlot, headerNumber}

// once reads the idempotency key of a request, or its number in a session. The scope of a key is the kind of request
// and the client or runner. The digest covers everything that influences the answer: path, query, media type and bytes
// of the body, and the Prefer header. A second request with the same key but another digest is refused.
func once(c echo.Context, kind, who string, body []byte) (o job.Once, err error) {
	if o, err = onceHead(c); err != nil || !o.Given() {
		return job.Once{}, err
	}
	if o.Key != "" {
		o.Scope = kind + " " + who
	}
	r := c.Request()
	o.Digest = digestOf(fmt.Sprintf("%s %s?%s\n%t %t\n", r.Method, r.URL.Path, r.URL.RawQuery, formOf(r) == mimeNDJSON, prefersEach(r)), body)
	return o, nil
}

// onceHead returns the key or the number in a session that the headers give.
func onceHead(c echo.Context) (o job.Once, err error) {
	key, keyed, err := oneHeader(c, headerKey)
	if err == nil && keyed {
		err = checkKey(key)
		o.Key = key
	}
	if err == nil {
		err = numberOf(c, &o)
	}
	return o, err
}

// digestOf returns the digest of a request. head is everything that influences the answer except the body.
func digestOf(head string, body []byte) (digest job.Digest) {
	h := sha256.New()
	h.Write([]byte(head))
	h.Write(body)
	copy(digest[:], h.Sum(nil))
	return digest
}

// oneHeader returns the value of a header that must not be repeated.
func oneHeader(c echo.Context, name string) (value string, given bool, err error) {
	values := c.Request().Header[name]
	switch len(values) {
	case 0:
		return "", false, nil
	case 1:
		return values[0], true, nil
	}
	return "", true, badRequest(name, name+" is given twice")
}

func checkKey(key string) error {
	if err := job.CheckText(headerKey, key, 1, job.MaxKeyBytes); err != nil {
		return badField(headerKey, err)
	}
	for _, char := range key {
		if unicode.IsControl(char) {
			return badRequest(headerKey, headerKey+" must not contain control characters")
		}
	}
	return nil
}

// numberOf reads the headers of a request in a session: the session, the number and the slot. The default slot is 0.
func numberOf(c echo.Context, o *job.Once) error {
	session, inSession, err := oneHeader(c, headerSession)
	if err != nil {
		return err
	}
	slot, inSlot, err := oneHeader(c, headerSlot)
	if err != nil {
		return err
	}
	number, numbered, err := oneHeader(c, headerNumber)
	switch {
	case err != nil:
		return err
	case !inSession && !inSlot && !numbered:
		return nil
	case o.Key != "":
		return badRequest(headerSession, "a request must not have both an Idempotency-Key and a number in a session")
	case !inSession:
		return badRequest(headerSession, headerSession+" is missing: a request with a session number or slot must name the session")
	case !numbered:
		return badRequest(headerNumber, headerNumber+" is missing: each request in a session has a number")
	}
	if o.Session, err = job.ParseID(session); err != nil {
		return badID(headerSession)
	}
	n, err := headerInt(headerNumber, number, 1, job.MaxNumber)
	if err != nil {
		return err
	}
	o.Number = uint64(n)
	if inSlot {
		if n, err = headerInt(headerSlot, slot, 0, job.MaxSlots-1); err != nil {
			return err
		}
		o.Slot = int(n)
	}
	return nil
}

func headerInt(name, text string, lo, hi int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, badRequest(name, fmt.Sprintf("%s must be a whole number from %d to %d, not %q", name, lo, hi, shortened(text)))
	}
	return n, badField(name, job.CheckRange(name, n, lo, hi))
}

// setReplayed marks the answer to a repeated request.
func setReplayed(c echo.Context, replayed bool) {
	if replayed {
		c.Response().Header().Set(headerReplayed, "true")
	}
}
