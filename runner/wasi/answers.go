package wasi

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"

	"golang.org/x/sync/semaphore"
)

// room is the memory that one answer has taken from the budget that all answers of a runner share.
type room struct {
	of    *semaphore.Weighted
	bytes int64
}

// take takes room for a body. If it has to wait, it pauses the clock of the run.
func (r *room) take(ctx context.Context, run *clock, body int64) error {
	need := body * bodyCopies
	if !r.of.TryAcquire(need) {
		waiting, cancel := context.WithTimeout(ctx, run.pause())
		defer cancel()
		defer run.resume()
		if r.of.Acquire(waiting, need) != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return errors.New("this runner has too many long answers at a time, and there was no room for this one in time")
		}
	}
	r.bytes += need
	return nil
}

// keep releases the room that a body does not need because it is shorter than expected.
func (r *room) keep(body int64) {
	if spare := r.bytes - body*bodyCopies; spare > 0 {
		r.of.Release(spare)
		r.bytes -= spare
	}
}

func (r *room) free() { r.keep(0) }

// readBody returns the body of a response. It takes room before it reads more than freeBytes.
func readBody(ctx context.Context, run *clock, response *http.Response, held *room) ([]byte, error) {
	tooLong := fmt.Errorf("the body of the answer has more than %d bytes", maxBodyBytes)
	if response.ContentLength > maxBodyBytes {
		return nil, tooLong
	}
	body := make([]byte, freeBytes)
	n, err := fill(response.Body, body)
	if err == nil {
		most := int64(maxBodyBytes)
		if response.ContentLength >= 0 {
			most = response.ContentLength
		}
		if err := held.take(ctx, run, most); err != nil {
			return nil, err
		}
		long := make([]byte, max(most, freeBytes)+1) // one byte more than the most, to notice a longer body
		copy(long, body)
		var more int
		more, err = fill(response.Body, long[n:])
		n, body = n+more, long
	}
	switch {
	case err == nil:
		return nil, tooLong
	case !errors.Is(err, io.EOF):
		return nil, fmt.Errorf("read the answer: %w", whyNot(ctx, err))
	}
	if 2*n < len(body) {
		body = bytes.Clone(body[:n])
		held.keep(int64(n))
	}
	return body[:n], nil
}

// fill reads until b is full. It returns io.EOF if r ends before that.
func fill(r io.Reader, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var more int
		more, err = r.Read(b[n:])
		n += more
	}
	if n == len(b) {
		err = nil
	}
	return n, err
}

// encodedBytes returns the length of a body as a JSON string.
func encodedBytes(body []byte, isText bool) int {
	if !isText {
		return base64.StdEncoding.EncodedLen(len(body)) + len(`""`)
	}
	n := len(body) + len(`""`)
	for _, c := range body {
		switch {
		case c == '"', c == '\\', c == '\b', c == '\f', c == '\n', c == '\r', c == '\t':
			n++
		case c < ' ':
			n += len(`\u0000`) - 1
		}
	}
	return n
}
