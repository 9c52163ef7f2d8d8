package files

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

	"github.com/daybookq/daybook/client/internal/transport"
	"github.com/daybookq/daybook/client/problem"
	"github.com/daybookq/daybook/job/digest"
)

// maxVain is how many connections in succession may break before they have delivered a byte. A connection that cannot
// be opened counts as a failure of any other request does.
const maxVain = 10

// Open opens a blob. The address may have any form that the server accepts. The error is ErrNotFound if there is no such blob.
func (s *Blobs) Open(ctx context.Context, address string) (*BlobReader, error) {
	r, ref, err := s.request(http.MethodGet, address)
	if err != nil {
		return nil, err
	}
	b := &BlobReader{c: s.c, request: r, want: ref, hash: sha256.New()}
	b.ctx, b.cancel = context.WithCancelCause(ctx)
	if ref.SHA1 != nil {
		b.sha1 = sha1.New()
	}
	if err := b.Open(); err != nil {
		b.cancel(nil)
		return nil, err
	}
	return b, nil
}

// BlobReader reads a blob. If the connection breaks, it continues where it was. Its last Read fails if the bytes do not
// have the digest of the address, so a caller that gets io.EOF has got the whole blob. One goroutine uses it at a time.
type BlobReader struct {
	Blob

	c       *transport.Conn
	ctx     context.Context // of the whole reading
	cancel  context.CancelCauseFunc
	request transport.Request
	want    digest.Ref
	hash    hash.Hash
	sha1    hash.Hash // nil unless the address is a SHA-1

	off  int64 // bytes that were read
	body io.ReadCloser
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
		n, err = b.body.Read(p[:min(int64(len(p)), b.Size-b.off)])
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
		return fmt.Errorf("%w: the bytes that arrived as %s have the digest %s", problem.ErrBlobDamaged, b.want, sum)
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
		if !errors.Is(broken, problem.ErrUnavailable) { // the answer has ended too early
			broken = fmt.Errorf("%w: %w", problem.ErrUnavailable, broken)
		}
		return fmt.Errorf("read on after %d of %d bytes: %w", b.off, b.Size, broken)
	}
	b.c.Logger.DebugContext(b.ctx, "reading a blob again", "blob", b.Address, "from", b.off, "error", broken)
	if err := b.Open(); err != nil {
		return fmt.Errorf("read on after %d of %d bytes: %w", b.off, b.Size, err)
	}
	return nil
}

// Open requests the rest of the blob.
func (b *BlobReader) Open() error {
	return b.c.Retry(b.ctx, b.request.Path, transport.Repeatable, b.Once)
}

func (b *BlobReader) Once() error {
	r := b.request
	if b.off > 0 {
		r.Header = http.Header{"Range": {"bytes=" + strconv.FormatInt(b.off, 10) + "-"}, "If-Range": {`"` + b.Address + `"`}}
	}
	body, err := b.c.Open(b.ctx, r, b.c.Timeout)
	if err != nil {
		return err
	}
	found, err := b.accept(body)
	if err != nil {
		return errors.Join(err, body.Close())
	}
	b.Blob, b.body = found, body
	return nil
}

// accept checks the head of an answer.
func (b *BlobReader) accept(answer *transport.Opened) (found Blob, err error) {
	wrong := func(text string) error {
		return fmt.Errorf("GET %s: %w: %s", b.request.Path, problem.ErrUnexpectedAnswer, text)
	}
	if found, err = describedBlob(answer.Header); err != nil {
		return found, wrong(err.Error())
	}
	if b.off == 0 {
		if answer.Status != http.StatusOK {
			return found, wrong(fmt.Sprintf("status %d", answer.Status))
		}
		return found, nil
	}
	if answer.Status != http.StatusPartialContent || found.Address != b.Address || found.Size != b.Size-b.off {
		return found, wrong(fmt.Sprintf("status %d with %d bytes of %s, and not the last %d bytes of %s", answer.Status, found.Size, found.Address, b.Size-b.off, b.Address))
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
