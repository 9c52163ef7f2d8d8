package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

const (
	// streamBytes is the memory for storing or sending a blob.
	streamBytes        = 1 << 20
	streamsBudgetBytes = 64 << 20 // uploads; as much again for downloads
)

// streamedBody is a request body that the server stores while it arrives, so it can have any length. It holds a share
// of the budget for uploads until release.
type streamedBody struct {
	pacedReader
	share *share
	c     echo.Context
	// readErr is the error of the last Read, other than io.EOF.
	readErr error
}

// streamBody begins to read a body that the handler stores. The caller calls stored if the whole body was read, or refused
// otherwise, and release in any case.
func (s *Server) streamBody(c echo.Context) (*streamedBody, error) {
	r := c.Request()
	zipped, err := isGzip(r.Header[echo.HeaderContentEncoding])
	if err != nil || zipped { // a blob is stored as it is sent
		return nil, &problem{status: http.StatusUnsupportedMediaType, code: codeUnsupported,
			field: echo.HeaderContentEncoding, detail: "this route stores the body as it is sent; send it without Content-Encoding"}
	}
	held := s.shareOf(c, s.uploads)
	b := &streamedBody{share: held, c: c}
	if err := b.reserve(r.Context(), streamBytes); err != nil {
		return nil, err
	}
	b.from, b.deadline = r.Body, http.NewResponseController(c.Response().Writer)
	return b, nil
}

// reserve waits until the budget has n more bytes for the objects that the handler makes from the body.
func (b *streamedBody) reserve(ctx context.Context, n int64) error {
	if b.share.grow(ctx, n, maxBudgetWait) {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return overloaded()
}

// Read reads the body. It fails if the client sends too slowly.
func (b *streamedBody) Read(p []byte) (int, error) {
	n, err := b.pacedReader.Read(p)
	if err != nil && err != io.EOF {
		b.readErr = err
	}
	return n, err
}

// stored ends the reading of a body that was read to its end.
func (b *streamedBody) stored() error {
	if conn := connectionOf(b.c.Request()); conn != nil {
		conn.unread = false
	}
	if err := b.deadline.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("clear read deadline: %w", err)
	}
	return nil
}

// refused returns the problem of a body that was not stored. The rest of the body is not read.
func (b *streamedBody) refused(err error) error {
	b.c.Response().Header().Set(echo.HeaderConnection, "close")
	if b.readErr != nil {
		return bodyProblem(b.readErr)
	}
	return err
}

func (b *streamedBody) release() { b.share.release() }
