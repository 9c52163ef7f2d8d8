package web

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

const (
	// StreamBytes is the memory for storing or sending a blob.
	StreamBytes = 1 << 20
)

// StreamedBody is a request body that the server stores while it arrives, so it can have any length. It holds a share
// of the lane for uploads until release.
type StreamedBody struct {
	PacedReader
	share *Share
	c     echo.Context
	// readErr is the error of the last Read, other than io.EOF.
	readErr error
}

// StreamBody begins to read a body that the handler stores. The caller calls stored if the whole body was read, or refused
// otherwise, and release in any case.
func StreamBody(c echo.Context, from *Lane) (*StreamedBody, error) {
	r := c.Request()
	zipped, err := isGzip(r.Header[echo.HeaderContentEncoding])
	if err != nil || zipped { // a blob is stored as it is sent
		return nil, &Problem{Status: http.StatusUnsupportedMediaType, Code: CodeUnsupported,
			Field: echo.HeaderContentEncoding, Detail: "this route stores the body as it is sent; send it without Content-Encoding"}
	}
	held := ShareOf(c, from)
	b := &StreamedBody{share: held, c: c}
	if err := b.Reserve(r.Context(), StreamBytes); err != nil {
		return nil, err
	}
	b.From, b.Deadline, b.ctx = r.Body, http.NewResponseController(c.Response().Writer), r.Context()
	return b, nil
}

// Reserve waits until the lane has n more bytes for the objects that the handler makes from the body.
func (b *StreamedBody) Reserve(ctx context.Context, n int64) error {
	if b.share.Grow(ctx, n, MaxBudgetWait) {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return Overloaded()
}

// Read reads the body. It fails if the client sends too slowly.
func (b *StreamedBody) Read(p []byte) (int, error) {
	n, err := b.PacedReader.Read(p)
	if err != nil && err != io.EOF {
		b.readErr = err
	}
	return n, err
}

// Stored ends the reading of a body that was read to its end.
func (b *StreamedBody) Stored() error {
	if conn := ConnectionOf(b.c.Request()); conn != nil {
		conn.unread = false
	}
	if err := b.Deadline.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("clear read deadline: %w", err)
	}
	return nil
}

// Refused returns the problem of a body that was not stored. The rest of the body is not read.
func (b *StreamedBody) Refused(err error) error {
	b.c.Response().Header().Set(echo.HeaderConnection, "close")
	if b.readErr != nil {
		return bodyProblem(b.readErr)
	}
	return err
}

func (b *StreamedBody) Release() { b.share.Release() }
