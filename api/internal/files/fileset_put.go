package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/named"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/client/fileset"
	"github.com/daybookq/daybook/client/fileset/archive"
	"github.com/daybookq/daybook/job"
)

const (
	// fileBytes is about the memory for a file of a fileset while an archive is stored: in the batch, in the manifest,
	// and in its text.
	fileBytes = 1 << 10
	// filesAtOnce is the number of files for which an upload takes memory in one step.
	filesAtOnce = 64
	// manifestFactor is the ratio of a manifest's size in memory to the size of its text.
	manifestFactor = 4
	// ManifestsBytes is the size of the lane for manifests. One remote address can get half of it, which is enough for
	// the largest fileset.
	ManifestsBytes = 2 * (2 + manifestFactor) * fileset.MaxManifestBytes
	// maxMissing is the largest number of missing blobs that a refusal lists.
	maxMissing = 10_000
)

// archiveTypes are the media types of a body that is an archive. The server detects the compression from the content.
// curl sends one of the first three if the user sets no Content-Type.
var archiveTypes = map[string]bool{
	"": true, echo.MIMEOctetStream: true, echo.MIMEApplicationForm: true, MIMETar: true, MIMETarGzip: true, MIMETarZstd: true,
	"application/tar": true, "application/gzip": true, "application/x-gzip": true, "application/zstd": true,
}

// Put answers PUT /filesets/{name} with 201 and the new version, or with 200 and the newest version if that is
// the same. The body is an archive, or a manifest as JSON.
func (s *Filesets) Put(c echo.Context) error {
	q, err := s.filesetQuery(c)
	if err != nil {
		return err
	}
	if q.cond, q.by, err = named.Condition(c); err != nil {
		return err
	}
	if s.blobs.Storage == nil {
		return NoBlobs()
	}
	of, err := s.blobs.Storage.Store()
	if err != nil {
		return err
	}
	kind := c.Request().Header.Get(echo.HeaderContentType)
	if name, _, err := mime.ParseMediaType(kind); err == nil {
		kind = name
	}
	switch {
	case kind == web.MIMEJSON:
		return s.putManifest(c, of, q)
	case archiveTypes[kind]:
		return s.putArchive(c, of, q)
	}
	return &web.Problem{Status: http.StatusUnsupportedMediaType, Code: web.CodeUnsupported, Field: echo.HeaderContentType,
		Detail: "this route requires a manifest as application/json, or a tar archive as application/x-tar, application/gzip, application/zstd or without Content-Type"}
}

// putArchive stores the files of an archive while the archive arrives.
func (s *Filesets) putArchive(c echo.Context, of *blob.Store, q filesetQuery) error {
	ctx := c.Request().Context()
	body, err := web.StreamBody(c, s.blobs.Uploads)
	if err != nil {
		return err
	}
	defer body.Release()
	if err := body.Reserve(ctx, unpackBytes); err != nil {
		return err
	}
	held := web.ShareOf(c, s.blobs.Manifests)
	defer held.Release()
	batch, err := of.NewBatch(ctx, q.client)
	if err != nil {
		return body.Refused(err)
	}
	var m *fileset.Manifest
	text, err := func() (_ []byte, err error) {
		r, free, err := unpacked(body)
		if err != nil {
			return nil, err
		}
		defer free()
		if m, err = archive.Read(ctx, r, &filesetBatch{batch: batch, held: held}); err != nil {
			return nil, err
		}
		text, err := m.Encode()
		if err != nil {
			return nil, err
		}
		if _, err := batch.Add(ctx, bytes.NewReader(text), blob.Ref{}); err != nil {
			return nil, err
		}
		return text, batch.Commit(ctx)
	}()
	if err := errors.Join(err, batch.Discard()); err != nil {
		if errors.Is(err, blob.ErrNotFound) {
			err = &web.Problem{Status: http.StatusServiceUnavailable, Code: web.CodeOverloaded, Detail: "a blob of the fileset was removed while the fileset was stored; repeat the request"}
		}
		return body.Refused(err)
	}
	if err := body.Stored(); err != nil {
		return err
	}
	s.blobs.metrics.blobsPut.Add(float64(len(m.Files)))
	s.blobs.metrics.blobBytesPut.Add(float64(m.Bytes()))
	return s.nameFileset(c, q, formArchive, m, text)
}

// filesetBatch is a batch that receives the files of an archive. It takes a share of memory for each file.
type filesetBatch struct {
	batch *blob.Batch

	mu    sync.Mutex // guards the fields below
	held  *web.Share
	files int
}

// Add stores the content of a file.
func (b *filesetBatch) Add(ctx context.Context, r io.Reader) (fileset.Address, error) {
	if err := b.reserve(ctx); err != nil {
		return fileset.Address{}, err
	}
	info, err := b.batch.Add(ctx, r, blob.Ref{})
	return fileset.Address(info.Address), err
}

func (b *filesetBatch) reserve(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.files++
	if b.files%filesAtOnce != 1 || b.held.Grow(ctx, filesAtOnce*fileBytes, web.MaxBudgetWait) {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return web.Overloaded()
}

// putManifest stores a manifest whose blobs are already stored.
func (s *Filesets) putManifest(c echo.Context, of *blob.Store, q filesetQuery) error {
	ctx := c.Request().Context()
	body, err := web.ReadBody(c, &s.manifest)
	if err != nil {
		return err
	}
	defer body.Release()
	if err := body.Reserve(ctx, manifestFactor*int64(len(body.Bytes))); err != nil {
		return err
	}
	m, err := fileset.Decode(body.Bytes)
	if err != nil {
		return err
	}
	if err := s.haveBlobs(ctx, of, q.client, m); err != nil {
		return err
	}
	text, err := m.Encode()
	if err != nil {
		return err
	}
	if _, err := of.Put(ctx, q.client, bytes.NewReader(text), blob.Ref{}); err != nil {
		return err
	}
	return s.nameFileset(c, q, formManifest, m, text)
}

// haveBlobs returns a problem unless all blobs of a manifest are stored with the sizes in the manifest. A later
// collection of blobs keeps them until the manifest has a name.
func (s *Filesets) haveBlobs(ctx context.Context, of *blob.Store, client string, m *fileset.Manifest) error {
	sizes := make(map[blob.Address]int64, len(m.Files))
	all := make([]blob.Address, 0, len(m.Files))
	for i := range m.Files {
		a := blob.Address(m.Files[i].Blob)
		if _, ok := sizes[a]; !ok {
			sizes[a] = m.Files[i].Size
			all = append(all, a)
		}
	}
	stored, err := of.Sizes(ctx, client, all)
	if err != nil {
		return err
	}
	var missing []blob.Address
	for i, size := range stored {
		if size == blob.NotStored {
			missing = append(missing, all[i])
		}
	}
	if len(missing) > 0 {
		p := &web.Problem{Status: http.StatusConflict, Code: "blobs_missing",
			Detail: fmt.Sprintf("%d of the %d blobs that the manifest names are not stored; store them by PUT /blobs, then repeat this request; missing lists them, up to %d", len(missing), len(all), maxMissing)}
		list := make([]string, min(len(missing), maxMissing))
		for i := range list {
			list[i] = missing[i].String()
		}
		p.Members = map[string]any{"missing": list}
		return p
	}
	for i, a := range all {
		if stored[i] != sizes[a] {
			return &web.Problem{Status: http.StatusBadRequest, Code: "bad_manifest", Detail: fmt.Sprintf("the manifest says that blob %s has %d bytes; it has %d", a, sizes[a], stored[i])}
		}
	}
	return nil
}

// nameFileset makes a stored manifest a version of the fileset.
func (s *Filesets) nameFileset(c echo.Context, q filesetQuery, form string, m *fileset.Manifest, text []byte) error {
	address := fileset.AddressOf(text)
	p := job.PutDocument{Kind: job.FilesetDocument, Client: q.client, Name: q.name, Digest: job.DocumentDigest(address),
		Summary: job.FilesetSummary(len(m.Files), m.Bytes()), If: q.cond, By: q.by}
	put, receipt, err := s.routes.Engine.PutDocument(c.Request().Context(), p)
	if err != nil {
		return err
	}
	s.metrics.put(form, put.Same, m)
	web.SetSeq(c, receipt.Seq)
	h := c.Response().Header()
	h["Etag"] = []string{`"` + address.String() + `"`}
	status := http.StatusOK
	if !put.Same {
		status = http.StatusCreated
		location := "/filesets/" + q.name + "?"
		if q.client != "" {
			location += "client=" + q.client + "&"
		}
		h.Set(echo.HeaderLocation, location+"version="+strconv.Itoa(put.Document.Version))
	}
	return web.AnswerDocument(c, status, documentOfFileset(&put.Document))
}
