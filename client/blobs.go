package client

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/daybookq/daybook/job/digest"
)

// Blob describes a blob that the server stores: any number of bytes, addressed by their SHA-256.
type Blob struct {
	Address   string `json:"address"`       // sha256:<64 hex digits>
	SHA1      string `json:"sha1,omitzero"` // 40 hex digits; only from PutBlob
	Size      int64  `json:"size"`
	ChangedAt int64  `json:"changed_at"` // when it was stored last, or found by MissingBlobs; unix ms
	Existed   bool   `json:"-"`          // only from PutBlob: it was there
}

const (
	// maxAddresses is how many addresses one request may contain.
	maxAddresses = 10_000
	// expectFrom is the length from which an upload waits until the server announces that it accepts the body.
	expectFrom = 1 << 20
	blobType   = "application/octet-stream"
	// collectWait is how long a collection may take.
	collectWait = time.Hour
)

// PutBlob stores the bytes of r up to its end, for a client or with "" for all. It returns when the server has them on
// disk. If r is an io.Seeker and the upload fails, PutBlob repeats it from the first position of r; otherwise it does
// not. From 64 MiB on, PutBlob uses UploadBlob for an io.Seeker, which continues where the upload has failed. PutBlob
// compares the address with the bytes that were sent. The error is ErrOverloaded if the quota or the disk of the server
// is full.
//
// The server removes a blob after a day if no job names it. So put a blob first, and then create the job that names it.
func (c *Client) PutBlob(ctx context.Context, client string, r io.Reader) (b Blob, err error) {
	u := newUpload(r)
	if seeker, ok := r.(io.ReadSeeker); ok && u.seeker != nil && u.size >= c.resumableFrom {
		if _, err := seeker.Seek(u.from, io.SeekStart); err != nil {
			return b, fmt.Errorf("read the blob again: %w", err)
		}
		return c.UploadBlob(ctx, client, seeker, UploadOptions{})
	}
	rq := request{method: http.MethodPut, path: "/blobs", query: ofClient(client), contentType: blobType, repeat: repeatable, upload: u}
	var a answer
	if u.seeker == nil {
		a, err = c.once(ctx, rq)
	} else {
		a, err = c.do(ctx, rq)
	}
	if err != nil {
		return b, err
	}
	if err := decode(a, &b); err != nil {
		return b, err
	}
	if want := digest.SHA256(u.hash.Sum(nil)).String(); b.Address != want {
		return b, a.unreadable(fmt.Errorf("the server has stored %s, and %s was sent", b.Address, want))
	}
	b.Existed = a.status == http.StatusOK
	return b, nil
}

// StatBlob describes a blob without reading it. The error is ErrNotFound if there is no such blob. The address may have
// any form that the server accepts.
func (c *Client) StatBlob(ctx context.Context, client, address string) (Blob, error) {
	r, _, err := blobRequest(http.MethodHead, client, address)
	if err != nil {
		return Blob{}, err
	}
	a, err := c.do(ctx, r)
	if refused := StatusOf(err); refused == http.StatusNotFound { // an answer to HEAD carries no problem document
		return Blob{}, fmt.Errorf("%w: %s", ErrNotFound, address)
	}
	if err != nil {
		return Blob{}, err
	}
	found, err := describedBlob(a.header)
	if err != nil {
		return Blob{}, a.unreadable(err)
	}
	return found, nil
}

// MissingBlobs returns the addresses of blobs that are not stored, in the forms in which the caller gave them. The
// server keeps all other blobs for at least 23 hours from now on. So store the missing ones, and then create the jobs
// that name the blobs.
func (c *Client) MissingBlobs(ctx context.Context, client string, addresses []string) (missing []string, err error) {
	for some := range slices.Chunk(addresses, maxAddresses) {
		r, err := post("/blobs/missing", map[string][]string{"addresses": some}, repeatable)
		if err != nil {
			return nil, err
		}
		r.query, r.wait = ofClient(client), time.Duration(len(some))*fileWait
		a, err := c.do(ctx, r)
		if err != nil {
			return nil, err
		}
		var page struct {
			Missing []string `json:"missing"`
		}
		if err := decode(a, &page); err != nil {
			return nil, err
		}
		missing = append(missing, page.Missing...)
	}
	return missing, nil
}

// Blobs yields the blobs of a client, or with "" the blobs that all clients share, in the order of their addresses. An
// error ends the list.
func (c *Client) Blobs(ctx context.Context, client string) iter.Seq2[Blob, error] {
	r := get("/blobs")
	r.query = url.Values{"limit": {"1000"}}
	if client != "" {
		r.query.Set("client", client)
	}
	return pages(ctx, c, r, func(a answer) (list []Blob, next string, err error) {
		var page struct {
			Blobs []Blob `json:"blobs"`
			Next  string `json:"next"`
		}
		err = decode(a, &page)
		return page.Blobs, page.Next, err
	})
}

// CollectedBlobs is the number and size of the blobs that CollectBlobs removed.
type CollectedBlobs struct {
	Blobs int   `json:"blobs"`
	Bytes int64 `json:"bytes"`
}

// CollectBlobs removes the blobs that were stored more than a day ago and that nothing names. The server also does this
// regularly without a request. It may take minutes, which do not count for Options.Timeout. The error is ErrConflict
// while the server runs a collection.
func (c *Client) CollectBlobs(ctx context.Context) (done CollectedBlobs, err error) {
	r := request{method: http.MethodPost, path: "/blobs/collect", repeat: repeatable, wait: collectWait}
	a, err := c.do(ctx, r)
	if err != nil {
		return done, err
	}
	return done, decode(a, &done)
}

// ofClient returns the query of a request about the blobs of a client.
func ofClient(client string) url.Values {
	if client == "" {
		return nil
	}
	return url.Values{"client": {client}}
}

// blobRequest returns a request about a blob, and the digest that the address names.
func blobRequest(method, client, address string) (request, digest.Ref, error) {
	ref, err := digest.Parse(address)
	if err != nil {
		return request{}, ref, fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	return request{method: method, path: "/blobs/" + ref.String(), query: ofClient(client), repeat: repeatable}, ref, nil
}

// upload is a body that is read while it is sent.
type upload struct {
	r      io.Reader
	seeker io.Seeker // r, if it can be read again
	from   int64     // the first position of r
	size   int64     // -1: not known
	hash   hashState // of the bytes that were read in this try
}

type hashState interface {
	io.Writer
	Sum(b []byte) []byte
	Reset()
}

func newUpload(r io.Reader) *upload {
	u := &upload{r: r, size: -1, hash: sha256.New()}
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
	u.seeker, u.from, u.size = seeker, from, max(end-from, 0)
	return u
}

// begin makes the upload the body of a request, from its beginning. alive is called whenever some of it was read. The
// caller calls end after the answer, because net/http may still read the body then; from then on reads fail.
func (u *upload) begin(req *http.Request, alive func()) (end func(), err error) {
	u.hash.Reset()
	if u.seeker != nil {
		if _, err := u.seeker.Seek(u.from, io.SeekStart); err != nil {
			return nil, fmt.Errorf("read the blob again: %w", err)
		}
	}
	body := &uploadBody{u: u, alive: alive}
	req.Body, req.GetBody, req.ContentLength = body, nil, u.size
	if u.size == 0 {
		req.Body = http.NoBody
	}
	if u.size < 0 || u.size >= expectFrom {
		req.Header.Set("Expect", "100-continue")
	}
	return func() { _ = body.Close() }, nil // Close returns no error
}

// uploadBody is the body of one try.
type uploadBody struct {
	u     *upload
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
	n, err := b.u.r.Read(p)
	if n > 0 {
		b.u.hash.Write(p[:n])
		b.alive()
	}
	return n, err
}

// Close waits for a running Read if the body will be read again.
func (b *uploadBody) Close() error {
	if b.u.seeker == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return nil
}

// describedBlob reads the description of a blob from the headers of an answer.
func describedBlob(h http.Header) (b Blob, err error) {
	ref, err := digest.Parse(strings.Trim(h.Get("ETag"), `"`))
	if err != nil || ref.SHA256 == nil {
		return b, fmt.Errorf("the ETag %q is not the address of a blob", h.Get("ETag"))
	}
	b.Address = ref.SHA256.String()
	_, err = fmt.Sscan(h.Get("Content-Length"), &b.Size)
	if err != nil || b.Size < 0 {
		return b, fmt.Errorf("the Content-Length %q is not that of a blob", h.Get("Content-Length"))
	}
	return b, nil
}
