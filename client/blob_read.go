package client

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/daybookq/daybook/job/digest"
)

// maxVain is how many connections in succession may break before they have delivered a byte. A connection that cannot
// be opened counts as a failure of any other request does.
const maxVain = 10

// GetBlob opens a blob of a client, or with "" a blob that all clients share. The address may have any form that the
// server accepts. The error is ErrNotFound if there is no such blob.
func (c *Client) GetBlob(ctx context.Context, client, address string) (*BlobReader, error) {
	r, ref, err := blobRequest(http.MethodGet, client, address)
	if err != nil {
		return nil, err
	}
	b := &BlobReader{c: c, request: r, want: ref, hash: sha256.New()}
	b.ctx, b.cancel = context.WithCancelCause(ctx)
	if ref.SHA1 != nil {
		b.sha1 = sha1.New()
	}
	if err := b.open(); err != nil {
		b.cancel(nil)
		return nil, err
	}
	return b, nil
}

// BlobReader reads a blob. If the connection breaks, it continues where it was. Its last Read fails if the bytes do not
// have the digest of the address, so a caller that gets io.EOF has got the whole blob. One goroutine uses it at a time.
type BlobReader struct {
	Blob

	c       *Client
	ctx     context.Context // of the whole reading
	cancel  context.CancelCauseFunc
	request request
	want    digest.Ref
	hash    hash.Hash
	sha1    hash.Hash // nil unless the address is a SHA-1

	off  int64 // bytes that were read
	body io.ReadCloser
	late *time.Timer
	vain int   // connections in succession that delivered nothing
	end  error // what Read returns from now on
}

// Read returns the next bytes. Its error is ErrUnavailable if the server cannot be reached again, and ErrBlobDamaged if
// the bytes of the blob are not the bytes that were stored.
func (b *BlobReader) Read(p []byte) (int, error) {
	if b.end != nil {
		return 0, b.end
	}
	if len(p) == 0 {
		return 0, nil
	}
	n, err := 0, error(nil)
	if b.off < b.Size {
		b.late.Reset(b.c.o.Timeout)
		n, err = b.body.Read(p[:min(int64(len(p)), b.Size-b.off)])
		b.late.Stop()
		b.hash.Write(p[:n])
		if b.sha1 != nil {
			b.sha1.Write(p[:n])
		}
		b.off += int64(n)
	}
	if n > 0 {
		b.vain = 0
	}
	switch {
	case b.off == b.Size:
		b.end = b.check()
	case err != nil:
		b.end = b.reopen(err)
	}
	if n > 0 {
		return n, nil
	}
	return 0, b.end // may be nil: the caller reads again
}

// check returns io.EOF if the bytes that were read have the right digest.
func (b *BlobReader) check() error {
	sum := digest.SHA256(b.hash.Sum(nil))
	right := sum.String() == b.Address && (b.want.SHA256 == nil || sum == *b.want.SHA256)
	if b.sha1 != nil {
		right = right && digest.SHA1(b.sha1.Sum(nil)) == *b.want.SHA1
	}
	if !right {
		return fmt.Errorf("%w: the bytes that arrived as %s have the digest %s", ErrBlobDamaged, b.want, sum)
	}
	return io.EOF
}

// reopen continues after the connection has broken.
func (b *BlobReader) reopen(broken error) error {
	b.close()
	if err := b.ctx.Err(); err != nil {
		return err
	}
	if b.vain++; b.vain > maxVain {
		return fmt.Errorf("read on after %d of %d bytes: %w: %w", b.off, b.Size, ErrUnavailable, broken)
	}
	b.c.o.Logger.DebugContext(b.ctx, "reading a blob again", "blob", b.Address, "from", b.off, "error", broken)
	if err := b.open(); err != nil {
		return fmt.Errorf("read on after %d of %d bytes: %w", b.off, b.Size, err)
	}
	return nil
}

// open requests the rest of the blob.
func (b *BlobReader) open() error {
	return b.c.retry(b.ctx, b.request.path, repeatable, b.once)
}

func (b *BlobReader) once() error {
	ctx, cancel := context.WithCancelCause(b.ctx)
	late := time.AfterFunc(b.c.o.Timeout, func() { cancel(errSilent) })
	opened := false
	defer func() {
		if !opened {
			late.Stop()
			cancel(nil)
		}
	}()
	req, err := b.c.newRequest(ctx, b.request)
	if err != nil {
		return err
	}
	if b.off > 0 {
		req.Header.Set("Range", "bytes="+strconv.FormatInt(b.off, 10)+"-")
		req.Header.Set("If-Range", `"`+b.Address+`"`)
	}
	res, err := b.c.http.Do(req)
	if err != nil {
		if context.Cause(ctx) == errSilent {
			err = errSilent
		}
		return fmt.Errorf("GET %s: %w: %w", b.request.path, ErrUnavailable, err)
	}
	found, err := b.accept(res)
	if err != nil {
		return errors.Join(err, res.Body.Close())
	}
	late.Stop()
	opened = true
	b.Blob, b.body, b.late = found, closing{res.Body, func() { cancel(nil) }}, late
	return nil
}

// accept checks the head of an answer.
func (b *BlobReader) accept(res *http.Response) (found Blob, err error) {
	if res.StatusCode >= http.StatusMultipleChoices {
		text, err := readAnswer(res, func() {})
		if err != nil {
			return found, fmt.Errorf("GET %s: %w: %w", b.request.path, ErrUnavailable, err)
		}
		return found, refusal(b.request, res, text)
	}
	wrong := func(text string) error {
		return fmt.Errorf("GET %s: %w: %s", b.request.path, ErrUnexpectedAnswer, text)
	}
	if found, err = describedBlob(res.Header); err != nil {
		return found, wrong(err.Error())
	}
	if b.off == 0 {
		if res.StatusCode != http.StatusOK {
			return found, wrong(res.Status)
		}
		return found, nil
	}
	if res.StatusCode != http.StatusPartialContent || found.Address != b.Address || found.Size != b.Size-b.off {
		return found, wrong(fmt.Sprintf("%s with %d bytes of %s, and not the last %d bytes of %s", res.Status, found.Size, found.Address, b.Size-b.off, b.Address))
	}
	return b.Blob, nil
}

// Close ends the reading.
func (b *BlobReader) Close() error {
	b.close()
	b.cancel(nil)
	if b.end == nil || b.end == io.EOF {
		b.end = errBlobClosed
	}
	return nil
}

var errBlobClosed = errors.New("the reader of the blob is closed")

func (b *BlobReader) close() {
	if b.body != nil {
		_ = b.body.Close() // the bytes that were read count
		b.body = nil
	}
}

// closing calls a function after it was closed.
type closing struct {
	io.ReadCloser
	after func()
}

func (c closing) Close() error {
	defer c.after()
	return c.ReadCloser.Close()
}
