package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/client/fileset"
	"github.com/daybookq/daybook/client/fileset/archive"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
)

// selectTime is the longest time that patterns may take to select files. Ordinary patterns take milliseconds; some with
// many stars would take minutes with long paths.
const selectTime = 10 * time.Second

// Get answers GET and HEAD /filesets/{name} with the manifest, or with an archive of the files if the Accept header
// prefers one of the archive's media types.
func (s *Filesets) Get(c echo.Context) error {
	q, err := s.filesetQuery(c)
	if err != nil {
		return err
	}
	if s.blobs.Storage == nil {
		return NoBlobs()
	}
	if err := web.CatchUp(c, s.catchUp); err != nil {
		return err
	}
	version, _, err := s.routes.Engine.Document(job.FilesetDocument, q.client, q.name, q.version)
	if err != nil {
		return err
	}
	of, err := s.blobs.Storage.Store()
	if err != nil {
		return err
	}
	kind := web.Preferred(c.Request(), MIMETar, MIMETarGzip, MIMETarZstd)
	tag := filesetTag(&version, kind, q.patterns)
	h := c.Response().Header()
	h["Etag"] = []string{tag}
	h.Set(echo.HeaderVary, echo.HeaderAccept)
	h.Set(headerVersion, strconv.Itoa(version.Version))
	h["Cache-Control"] = []string{"no-cache"} // the client must ask each time
	h["X-Content-Type-Options"] = web.Nosniff
	if web.NamesTag(c.Request().Header["If-None-Match"], tag) {
		c.Response().WriteHeader(http.StatusNotModified)
		return nil
	}
	ctx := c.Request().Context()
	b, err := of.Get(ctx, q.client, blob.Address(version.Digest))
	if err != nil {
		return s.blobs.Damage(missingManifest(&version, err))
	}
	defer b.Close() // it was only read
	held, err := web.Hold(c, s.blobs.Manifests, (1+manifestFactor)*b.Info().Size)
	defer held.Release()
	if err != nil {
		return err
	}
	m, text, err := readManifest(ctx, b, q.patterns)
	if err != nil {
		return s.blobs.Damage(err)
	}
	if kind == "" {
		if c.Request().Method != http.MethodHead {
			s.metrics.gets.WithLabelValues(formManifest).Inc()
		}
		return web.Answer(c, http.StatusOK, web.MIMEJSON, text)
	}
	return s.sendArchive(c, of, q.client, m, kind)
}

// filesetTag is the entity tag of an answer. It covers the address of the manifest and everything else that changes the
// answer.
func filesetTag(f *document.Named, kind string, patterns fileset.Patterns) string {
	tag := f.Digest.String()
	if kind != "" {
		tag += ";" + kind[len("application/x-"):]
	}
	if !patterns.Empty() {
		tag += ";" + patterns.Digest()
	}
	return `"` + tag + `"`
}

// missingManifest returns the error of reading a manifest. A fileset whose manifest is not stored is damaged, not
// unknown.
func missingManifest(f *document.Named, err error) error {
	if errors.Is(err, blob.ErrNotFound) {
		return &web.Problem{Status: http.StatusInternalServerError, Code: "blob_damaged",
			Detail: fmt.Sprintf("the manifest %s of version %d of fileset %s is not stored; store the same files again", f.Digest, f.Version, f.Name)}
	}
	return err
}

// readManifest returns the part of a manifest that the patterns select, and the text of that part.
func readManifest(ctx context.Context, b *blob.Blob, patterns fileset.Patterns) (*fileset.Manifest, []byte, error) {
	if size := b.Info().Size; size > fileset.MaxManifestBytes {
		return nil, nil, fmt.Errorf("%w: blob %s has %d bytes", fileset.ErrManifest, b.Info().Address, size)
	}
	text, err := io.ReadAll(b) // which verifies it
	if err != nil {
		return nil, nil, err
	}
	m, err := fileset.Decode(text)
	if err != nil || patterns.Empty() {
		return m, text, err
	}
	ctx, cancel := context.WithTimeout(ctx, selectTime)
	defer cancel()
	if m, err = patterns.Select(ctx, m); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = web.BadRequest("pattern", fmt.Sprintf("the patterns take longer than %s; use fewer stars and alternatives", selectTime))
		}
		return nil, nil, err
	}
	text, err = m.Encode()
	return m, text, err
}

// sendArchive makes an archive of the files and sends it at the same time. If a blob is damaged, it closes the
// connection before the end of the archive.
func (s *Filesets) sendArchive(c echo.Context, of *blob.Store, client string, m *fileset.Manifest, kind string) error {
	r, w := c.Request(), c.Response()
	w.Header()[echo.HeaderContentType] = []string{kind}
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	room, remote := int64(web.StreamBytes+packBytes), of.IsRemote()
	if remote {
		room += aheadBytes
	}
	held, err := web.Hold(c, s.blobs.Downloads, room)
	defer held.Release()
	if err != nil {
		return err
	}
	z, err := packer(kind, w)
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	ctx := r.Context()
	get := func(ctx context.Context, a blob.Address) (*blob.Blob, error) { return of.Get(ctx, client, a) }
	copyFile := func(w io.Writer, f *fileset.File) error { return copyBlob(ctx, get, w, f) }
	if remote {
		ahead := newFilesAhead(ctx, get, m)
		defer ahead.end()
		copyFile = func(w io.Writer, _ *fileset.File) error { return ahead.copy(w) }
	}
	err = archive.Write(ctx, z, m, copyFile)
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		if ctx.Err() == nil {
			s.blobs.Log.Error().Err(s.blobs.Damage(err)).Str("fileset", c.Param("name")).Msg("a fileset was not sent to its end")
		}
		panic(http.ErrAbortHandler)
	}
	s.metrics.gets.WithLabelValues(formArchive).Inc()
	return nil
}
