package transport

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// expectFrom is the length from which an upload waits until the server announces that it accepts the body.
const expectFrom = 1 << 20

// Upload is a body that is read while it is sent.
type Upload struct {
	R      io.Reader
	Seeker io.Seeker // r, if it can be read again
	From   int64     // the first position of r
	Size   int64     // -1: not known
	Hash   hashState // of the bytes that were read in this try
}

type hashState interface {
	io.Writer
	Sum(b []byte) []byte
	Reset()
}

func NewUpload(r io.Reader) *Upload {
	u := &Upload{R: r, Size: -1, Hash: sha256.New()}
	seeker, ok := r.(io.Seeker)
	if !ok {
		return u
	}
	from, err := seeker.Seek(0, io.SeekCurrent)
	if err != nil { // a pipe, for example
		return u
	}
	end, err := seeker.Seek(0, io.SeekEnd)
	if err != nil {
		return u
	}
	u.Seeker, u.From, u.Size = seeker, from, max(end-from, 0)
	return u
}

// begin makes the upload the body of a request, from its beginning. alive is called whenever some of it was read. The
// caller calls end after the answer, because net/http may still read the body then; from then on reads fail.
func (u *Upload) begin(req *http.Request, alive func()) (end func(), err error) {
	u.Hash.Reset()
	if u.Seeker != nil {
		if _, err := u.Seeker.Seek(u.From, io.SeekStart); err != nil {
			return nil, fmt.Errorf("read the blob again: %w", err)
		}
	}
	body := &uploadBody{u: u, alive: alive}
	req.Body, req.GetBody, req.ContentLength = body, nil, u.Size
	if u.Size == 0 {
		req.Body = http.NoBody
	}
	if u.Size < 0 || u.Size >= expectFrom {
		req.Header.Set("Expect", "100-continue")
	}
	return func() { _ = body.Close() }, nil // Close returns no error
}

// uploadBody is the body of one try.
type uploadBody struct {
	u     *Upload
	alive func()

	mu     sync.Mutex // held while a Read runs
	closed bool
}

func (b *uploadBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.u.R.Read(p)
	if n > 0 {
		b.u.Hash.Write(p[:n])
		b.alive()
	}
	return n, err
}

// Close waits for a running Read if the body will be read again.
func (b *uploadBody) Close() error {
	if b.u.Seeker == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return nil
}
