package stream

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
)

// requestHead begins the first line of a binary message. The rest of the message is the body of the request, in runs.
const requestHead = "#:request"

// binaryRequest reads a binary message: a line with the fields n, idempotency_key, session_id, slot and number, and a
// text in runs. The request has a number only if the message gives one.
func binaryRequest(message []byte) (*streamRequest, error) {
	r := &streamRequest{runs: true}
	line, body, _ := bytes.Cut(message, []byte("\n"))
	fields, ok := strings.CutPrefix(string(line[:min(len(line), MaxRequestHead)]), requestHead+" ")
	if !ok {
		return r, web.BadRequest("", "a binary message begins with a line "+requestHead+" n=… and has a text in runs")
	}
	var mistake error // not in the number
	seen := map[string]bool{}
	for field := range strings.SplitSeq(fields, " ") {
		key, raw, _ := strings.Cut(field, "=")
		err := r.set(key, raw)
		if err == nil && seen[key] {
			err = web.BadRequest(key, fmt.Sprintf("field %s is given twice", key))
		}
		seen[key] = true
		if err != nil && key == "n" {
			return &streamRequest{}, err
		} else if mistake == nil {
			mistake = err
		}
	}
	if r.N == nil {
		return r, web.BadRequest("n", "the line "+requestHead+" has no field n, which numbers the request")
	}
	if len(line) > MaxRequestHead {
		mistake = web.BadRequest("", fmt.Sprintf("the line %s is longer than %d bytes", requestHead, MaxRequestHead))
	}
	switch text := runs.NewDecoder(body); {
	case mistake != nil:
		return r, mistake
	case text.Is("create"):
		r.Create = jsontext.Value(body)
	case text.Is("complete"):
		r.Complete = jsontext.Value(body)
	default:
		return r, web.BadRequest("", "a line #:create or #:complete is expected after the first line")
	}
	return r, nil
}

// MaxRequestHead bounds the first line of a binary message. The longest has a key whose bytes take three each.
const MaxRequestHead = 3*job.MaxKeyBytes + 256

// set reads a field of the first line.
func (r *streamRequest) set(key, raw string) error {
	if key == "session_id" || key == "slot" || key == "number" {
		if r.Session == nil {
			r.Session = &sessionNumber{}
		}
	}
	switch key {
	case "n":
		n, err := strconv.ParseUint(raw, 10, 64)
		if err != nil || n > maxRequestNumber || strconv.FormatUint(n, 10) != raw {
			return web.BadRequest("n", fmt.Sprintf("n must be a whole number from 0 to %d, which numbers the request", int64(maxRequestNumber)))
		}
		r.N = &n
	case "idempotency_key":
		value, err := job.Unescape(raw)
		if err != nil {
			return web.BadRequest(key, fmt.Sprintf("%s=%s is not escaped as in a head line: %s", key, web.Shortened(raw), err))
		}
		r.Key = &value
	case "session_id":
		id, err := job.ParseID(raw)
		if err != nil {
			return web.BadID("session.id")
		}
		r.Session.ID = id
	case "slot", "number":
		n, err := web.WholeNumber(key, raw)
		if err != nil {
			return err
		}
		if key == "slot" {
			r.Session.Slot = *n
		} else {
			r.Session.Number = *n
		}
	default:
		return web.BadRequest(web.Shortened(key), fmt.Sprintf("field %q is not known: the first line has n, idempotency_key, session_id, slot and number", web.Shortened(key)))
	}
	return nil
}
