package web

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"
	"unicode"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/job"
)

const (
	HeaderKey      = "Idempotency-Key"
	HeaderReplayed = "Idempotency-Replayed"
	HeaderSession  = "Daybook-Session"
	HeaderSlot     = "Daybook-Session-Slot"
	HeaderNumber   = "Daybook-Session-Number"
)

// OnceHeaders are the headers that prevent the server from carrying out a repeated request again.
var OnceHeaders = [...]string{HeaderKey, HeaderSession, HeaderSlot, HeaderNumber}

// Once reads the idempotency key of a request, or its number in a session. The scope of a key is the kind of request
// and the client or runner. The digest covers everything that influences the answer: path, query, media type and bytes
// of the body, and the Prefer header. The server refuses a second request with the same key but another digest.
func Once(c echo.Context, kind, who string, body []byte) (o job.Once, err error) {
	if o, err = onceHead(c); err != nil || !o.Given() {
		return job.Once{}, err
	}
	if o.Key != "" {
		o.Scope = kind + " " + Owner(c.Request().Context(), who)
	}
	r := c.Request()
	o.Digest = DigestOf(fmt.Sprintf("%s %s?%s\n%t %t\n", r.Method, r.URL.Path, r.URL.RawQuery, FormOf(r) == MIMENDJSON, PrefersEach(r)), body)
	return o, nil
}

// Owner returns whose idempotency key a request has: that of a client or runner, or, if the request names none and its key has
// a scope, that of the key.
func Owner(ctx context.Context, who string) string {
	if by := job.KeyOf(ctx).By(); who == "" && !by.All() {
		return "key " + by.Name
	}
	return who
}

// onceHead returns the key or the number in a session that the headers give.
func onceHead(c echo.Context) (o job.Once, err error) {
	key, keyed, err := oneHeader(c, HeaderKey)
	if err == nil && keyed {
		err = CheckKey(key)
		o.Key = key
	}
	if err == nil {
		err = numberOf(c, &o)
	}
	return o, err
}

// DigestOf returns the digest of a request. head is everything that influences the answer except the body.
func DigestOf(head string, body []byte) (digest job.Digest) {
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
	return "", true, BadRequest(name, name+" is given twice")
}

func CheckKey(key string) error {
	if err := job.CheckText(HeaderKey, key, 1, job.MaxKeyBytes); err != nil {
		return BadField(HeaderKey, err)
	}
	for _, char := range key {
		if unicode.IsControl(char) {
			return BadRequest(HeaderKey, HeaderKey+" must not contain control characters")
		}
	}
	return nil
}

// numberOf reads the headers of a request in a session: the session, the number and the slot. The default slot is 0.
func numberOf(c echo.Context, o *job.Once) error {
	session, inSession, err := oneHeader(c, HeaderSession)
	if err != nil {
		return err
	}
	slot, inSlot, err := oneHeader(c, HeaderSlot)
	if err != nil {
		return err
	}
	number, numbered, err := oneHeader(c, HeaderNumber)
	switch {
	case err != nil:
		return err
	case !inSession && !inSlot && !numbered:
		return nil
	case o.Key != "":
		return BadRequest(HeaderSession, "a request must not have both an Idempotency-Key and a number in a session")
	case !inSession:
		return BadRequest(HeaderSession, HeaderSession+" is missing: a request with a session number or slot must name the session")
	case !numbered:
		return BadRequest(HeaderNumber, HeaderNumber+" is missing: each request in a session has a number")
	}
	if o.Session, err = job.ParseID(session); err != nil {
		return BadID(HeaderSession)
	}
	n, err := headerInt(HeaderNumber, number, 1, job.MaxNumber)
	if err != nil {
		return err
	}
	o.Number = uint64(n)
	if inSlot {
		if n, err = headerInt(HeaderSlot, slot, 0, job.MaxSlots-1); err != nil {
			return err
		}
		o.Slot = int(n)
	}
	return nil
}

func headerInt(name, text string, lo, hi int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, BadRequest(name, fmt.Sprintf("%s must be a whole number from %d to %d, not %q", name, lo, hi, Shortened(text)))
	}
	return n, BadField(name, job.CheckRange(name, n, lo, hi))
}

// SetReplayed marks the answer to a repeated request.
func SetReplayed(c echo.Context, replayed bool) {
	if replayed {
		c.Response().Header().Set(HeaderReplayed, "true")
	}
}
