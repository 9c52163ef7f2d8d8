package files

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/daybookq/daybook/client/internal/transport"
	"github.com/daybookq/daybook/client/problem"
	"github.com/daybookq/daybook/job/digest"
)

// Blobs are the blobs of a client, or those that all clients share. Client.Blobs of package client returns them.
type Blobs struct {
	c             *transport.Conn
	client        string
	resumableFrom int64 // the length of the blobs that Put sends as resumable uploads
}

// NewBlobs returns the blobs of a client, or with "" those that all clients share.
func NewBlobs(c *transport.Conn, client string) *Blobs {
	return &Blobs{c: c, client: client, resumableFrom: resumableFrom}
}

// Blob describes a blob that the server stores: any number of bytes, addressed by their SHA-256.
type Blob struct {
	Address   string `json:"address"`       // sha256:<64 hex digits>
	SHA1      string `json:"sha1,omitzero"` // 40 hex digits; only from Put
	Size      int64  `json:"size"`
	ChangedAt int64  `json:"changed_at"` // when it was stored last, or found by Missing; unix ms
	Existed   bool   `json:"-"`          // only from Put: it was there
}

// resumableFrom is the length from which Put sends a blob as a resumable upload. The server makes each 64 MiB of an upload
// durable, so a shorter upload would begin again anyway.
const resumableFrom = 64 << 20

const (
	// maxAddresses is how many addresses one request may contain.
	maxAddresses = 10_000
	blobType     = "application/octet-stream"
)

// Put stores the bytes of r up to its end. It returns when the server has them on disk. If r is an io.Seeker and the upload fails, Put repeats it from the first position of r; otherwise it does
// not. From 64 MiB on, Put uses Upload for an io.Seeker, which continues where the upload has failed. Put
// compares the address with the bytes that were sent. The error is ErrOverloaded if the quota or the disk of the server
// is full.
//
// The server removes a blob after a day if no job names it. So put a blob first, and then create the job that names it.
func (s *Blobs) Put(ctx context.Context, r io.Reader) (b Blob, err error) {
	u := transport.NewUpload(r)
	if seeker, ok := r.(io.ReadSeeker); ok && u.Seeker != nil && u.Size >= s.resumableFrom {
		if _, err := seeker.Seek(u.From, io.SeekStart); err != nil {
			return b, fmt.Errorf("read the blob again: %w", err)
		}
		return s.Upload(ctx, seeker, UploadOptions{})
	}
	rq := transport.Request{Method: http.MethodPut, Path: "/blobs", Query: ofClient(s.client), ContentType: blobType, Repeat: transport.Repeatable, Upload: u}
	var a transport.Answer
	if u.Seeker == nil {
		a, err = s.c.Once(ctx, rq)
	} else {
		a, err = s.c.Do(ctx, rq)
	}
	if err != nil {
		return b, err
	}
	if err := transport.Decode(a, &b); err != nil {
		return b, err
	}
	if want := digest.SHA256(u.Hash.Sum(nil)).String(); b.Address != want {
		return b, a.Unreadable(fmt.Errorf("the server has stored %s, and %s was sent", b.Address, want))
	}
	b.Existed = a.Status == http.StatusOK
	return b, nil
}

// Stat describes a blob without reading it. The error is ErrNotFound if there is no such blob. The address may have
// any form that the server accepts.
func (s *Blobs) Stat(ctx context.Context, address string) (Blob, error) {
	r, _, err := s.request(http.MethodHead, address)
	if err != nil {
		return Blob{}, err
	}
	a, err := s.c.Do(ctx, r)
	if refused := transport.StatusOf(err); refused == http.StatusNotFound { // an answer to HEAD carries no problem document
		return Blob{}, fmt.Errorf("%w: %s", problem.ErrNotFound, address)
	}
	if err != nil {
		return Blob{}, err
	}
	found, err := describedBlob(a.Header)
	if err != nil {
		return Blob{}, a.Unreadable(err)
	}
	return found, nil
}

// Missing returns the addresses of blobs that are not stored, in the forms in which the caller gave them. The
// server keeps all other blobs for at least 23 hours from now on. So store the missing ones, and then create the jobs
// that name the blobs.
func (s *Blobs) Missing(ctx context.Context, addresses []string) (missing []string, err error) {
	for some := range slices.Chunk(addresses, maxAddresses) {
		r, err := transport.Post("/blobs/missing", map[string][]string{"addresses": some}, transport.Repeatable)
		if err != nil {
			return nil, err
		}
		r.Query, r.Wait = ofClient(s.client), time.Duration(len(some))*fileWait
		a, err := s.c.Do(ctx, r)
		if err != nil {
			return nil, err
		}
		var page struct {
			Missing []string `json:"missing"`
		}
		if err := transport.Decode(a, &page); err != nil {
			return nil, err
		}
		missing = append(missing, page.Missing...)
	}
	return missing, nil
}

// All yields the blobs in the order of their addresses. An error ends the list.
func (s *Blobs) All(ctx context.Context) iter.Seq2[Blob, error] {
	r := transport.Get("/blobs")
	r.Query = url.Values{"limit": {"1000"}}
	if s.client != "" {
		r.Query.Set("client", s.client)
	}
	return transport.Pages(ctx, s.c, r, func(a transport.Answer) (list []Blob, next string, err error) {
		var page struct {
			Blobs []Blob `json:"blobs"`
			Next  string `json:"next"`
		}
		err = transport.Decode(a, &page)
		return page.Blobs, page.Next, err
	})
}

// ofClient returns the query of a request about the blobs of a client.
func ofClient(client string) url.Values {
	if client == "" {
		return nil
	}
	return url.Values{"client": {client}}
}

// blobRequest returns a request about a blob, and the digest that the address names.
func (s *Blobs) request(method, address string) (transport.Request, digest.Ref, error) {
	ref, err := digest.Parse(address)
	if err != nil {
		return transport.Request{}, ref, fmt.Errorf("%w: %w", problem.ErrBadRequest, err)
	}
	return transport.Request{Method: method, Path: "/blobs/" + ref.String(), Query: ofClient(s.client), Repeat: transport.Repeatable}, ref, nil
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
