package files

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/blob"
)

// Resumable uploads use the protocol tus 1.0.0 (https://tus.io/protocols/resumable-upload): the core protocol, and the
// extensions creation, creation-with-upload, termination and expiration.
const (
	tusVersion    = "1.0.0"
	TusExtensions = "creation,creation-with-upload,termination,expiration"

	headerTus          = "Tus-Resumable"
	headerUploadOffset = "Upload-Offset"
	headerUploadLength = "Upload-Length"
	headerUploadMeta   = "Upload-Metadata"
	headerDeferLength  = "Upload-Defer-Length"
	headerBlob         = "Daybook-Blob" // the address of the blob of a finished upload

	MIMEOffset = "application/offset+octet-stream"
	// metaAddress is the metadata key whose value is the address that the upload must have.
	metaAddress = "address"
	// MaxMetaBytes is much longer than an address and a file name.
	MaxMetaBytes = blob.MaxMetadata
)

// Uploads answers the routes of resumable uploads.
type Uploads struct{ blobs *Blobs }

func NewUploads(blobs *Blobs) *Uploads { return &Uploads{blobs} }

// uploadDocument describes a resumable upload.
type uploadDocument struct {
	ID        string  `json:"upload_id"`
	Size      int64   `json:"size"`
	Offset    int64   `json:"offset"`
	ExpiresAt int64   `json:"expires_at"`
	Blob      *string `json:"blob"` // null until the upload is finished
}

// TusRoute refuses other versions of the protocol. It also serves a request without a version.
func TusRoute(handle echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		c.Response().Header().Set(headerTus, tusVersion)
		if version := c.Request().Header.Get(headerTus); version != "" && version != tusVersion {
			c.Response().Header().Set("Tus-Version", tusVersion)
			return &web.Problem{Status: http.StatusPreconditionFailed, Code: "tus_version", Field: headerTus,
				Detail: fmt.Sprintf("the server supports version %s of tus, and not %q", tusVersion, web.Shortened(version))}
		}
		return handle(c)
	}
}

// Options answers OPTIONS /uploads with the features that the server supports.
func (s *Uploads) Options(c echo.Context) error {
	h := c.Response().Header()
	h.Set("Tus-Version", tusVersion)
	h.Set("Tus-Extension", TusExtensions)
	h.Set("Tus-Max-Size", strconv.FormatInt(blob.MaxBlobBytes, 10))
	h.Set(echo.HeaderAllow, "OPTIONS, POST")
	return c.NoContent(http.StatusNoContent)
}

// Create answers POST /uploads and begins an upload. If there is a body, its bytes are the first part.
func (s *Uploads) Create(c echo.Context) error {
	r := c.Request()
	if r.Header.Get(headerDeferLength) != "" {
		return web.BadRequest(headerDeferLength, "the server needs the length of the blob in "+headerUploadLength+" when the upload begins")
	}
	size, err := numberHeader(r, headerUploadLength)
	if err != nil {
		return err
	}
	meta := strings.Join(r.Header.Values(headerUploadMeta), ",")
	want, err := wantedBlob(meta)
	if err != nil {
		return err
	}
	return s.appendBody(c, func(body *web.StreamedBody) (status int, err error) {
		of, client, err := s.blobs.of(c)
		if err != nil {
			return 0, err
		}
		if r.ContentLength > size {
			return 0, tooLong(size)
		}
		u, err := of.NewUpload(r.Context(), client, size, want)
		if err != nil {
			return 0, err
		}
		if meta != "" {
			err = u.Describe(r.Context(), meta)
		}
		if err == nil && r.ContentLength != 0 {
			err = u.Append(r.Context(), 0, body)
		}
		if err == nil {
			err = s.finishUpload(c, u)
		}
		if err != nil { // the client does not get the id
			if removeErr := u.Remove(context.WithoutCancel(r.Context())); !errors.Is(removeErr, blob.ErrNotFound) {
				err = errors.Join(err, removeErr)
			}
			return 0, err
		}
		location := "/uploads/" + u.State().ID
		if client != "" {
			location += "?client=" + url.QueryEscape(client)
		}
		c.Response().Header().Set(echo.HeaderLocation, location)
		return http.StatusCreated, nil
	})
}

// Append answers PATCH /uploads/{id} and appends the body. The answer to the last part has the address of the
// blob.
func (s *Uploads) Append(c echo.Context) error {
	r := c.Request()
	offset, err := numberHeader(r, headerUploadOffset)
	if err != nil {
		return err
	}
	return s.appendBody(c, func(body *web.StreamedBody) (int, error) {
		u, err := s.uploadOf(c)
		if err != nil {
			return 0, err
		}
		if state := u.State(); offset == state.Offset && r.ContentLength > state.Size-offset {
			return 0, tooLong(state.Size - offset)
		}
		if err = u.Append(r.Context(), offset, body); err != nil {
			if errors.Is(err, blob.ErrOffset) { // where the client can continue
				c.Response().Header().Set(headerUploadOffset, strconv.FormatInt(u.State().Offset, 10))
			}
			return 0, err
		}
		if err = s.finishUpload(c, u); storesLater(err) {
			err = nil // the bytes are durable: a later HEAD returns the address of the blob
		}
		return http.StatusNoContent, err
	})
}

// appendBody calls handle to append the body of a request to an upload, and answers with the status that handle
// returns.
func (s *Uploads) appendBody(c echo.Context, handle func(*web.StreamedBody) (int, error)) error {
	r := c.Request()
	if r.ContentLength != 0 || r.Method == http.MethodPatch {
		if err := web.CheckContentType(r.Header[echo.HeaderContentType], []string{MIMEOffset}); err != nil {
			return err
		}
	}
	body, err := web.StreamBody(c, s.blobs.Uploads)
	if err != nil {
		return err
	}
	defer body.Release()
	status, err := handle(body)
	if err != nil {
		return body.Refused(uploadError(err))
	}
	if err := body.Stored(); err != nil {
		return err
	}
	return c.NoContent(status)
}

// Get answers GET and HEAD /uploads/{id}.
func (s *Uploads) Get(c echo.Context) error {
	u, err := s.uploadOf(c)
	if err != nil {
		return err
	}
	// A server that was stopped after the last append may not have stored the blob.
	if err := s.finishUpload(c, u); err != nil && !storesLater(err) {
		if errors.Is(err, blob.ErrDigest) { // the upload was removed
			err = blob.ErrNotFound
		}
		return uploadError(err)
	}
	state := u.State()
	h := c.Response().Header()
	h.Set(headerUploadLength, strconv.FormatInt(state.Size, 10))
	if state.Metadata != "" {
		h.Set(headerUploadMeta, state.Metadata)
	}
	h.Set(echo.HeaderCacheControl, "no-store")
	d := uploadDocument{ID: state.ID, Size: state.Size, Offset: state.Offset, ExpiresAt: state.Expires.UnixMilli()}
	if state.Blob != nil {
		d.Blob = web.OrNull(state.Blob.String())
	}
	return web.AnswerDocument(c, http.StatusOK, d)
}

// Remove answers DELETE /uploads/{id}.
func (s *Uploads) Remove(c echo.Context) error {
	u, err := s.uploadOf(c)
	if err != nil {
		return err
	}
	if err := u.Remove(c.Request().Context()); err != nil {
		return uploadError(err)
	}
	return c.NoContent(http.StatusNoContent)
}

// uploadOf returns the upload in the path.
func (s *Uploads) uploadOf(c echo.Context) (*blob.Upload, error) {
	of, client, err := s.blobs.of(c)
	if err != nil {
		return nil, err
	}
	u, err := of.Upload(c.Request().Context(), client, c.Param("id"))
	if err != nil {
		return nil, uploadError(err)
	}
	return u, nil
}

// finishUpload stores the blob if all of its bytes have arrived, and sets the headers that describe the upload. It sets
// them even if another request is using the upload, or too many files are open.
func (s *Uploads) finishUpload(c echo.Context, u *blob.Upload) (err error) {
	if state := u.State(); state.Offset == state.Size && state.Blob == nil {
		var info blob.Info
		info, err = u.Finish(c.Request().Context())
		switch {
		case err == nil && info.SHA1 != (blob.SHA1{}): // this request stored it
			s.blobs.metrics.blobsPut.Inc()
			s.blobs.metrics.blobBytesPut.Add(float64(info.Size))
		case err != nil && !storesLater(err):
			return err
		}
	}
	state := u.State()
	h := c.Response().Header()
	h.Set(headerUploadOffset, strconv.FormatInt(state.Offset, 10))
	h.Set("Upload-Expires", state.Expires.UTC().Format(http.TimeFormat))
	if state.Blob != nil {
		h.Set(headerBlob, state.Blob.String())
		h.Set(echo.HeaderLocation, blobLocation(c, *state.Blob))
	}
	return err
}

// storesLater reports whether the blob is not stored only because other requests are busy. The next request for the
// upload stores it.
func storesLater(err error) bool {
	return errors.Is(err, blob.ErrBusy) || errors.Is(err, blob.ErrFiles)
}

// uploadError is the error of an upload. It turns ErrNotFound into a problem that names the upload, not a blob.
func uploadError(err error) error {
	if errors.Is(err, blob.ErrNotFound) {
		return &web.Problem{Status: http.StatusNotFound, Code: "upload_not_found",
			Detail: fmt.Sprintf("there is no such upload, or it had no progress for %d hours; next step: begin another with POST /uploads", int(blob.UploadExpiry/time.Hour))}
	}
	return err
}

func tooLong(left int64) error {
	return fmt.Errorf("%w: the body is longer than the %d bytes that the upload still needs", blob.ErrTooLarge, left)
}

// numberHeader reads a header that must be a number.
func numberHeader(r *http.Request, name string) (int64, error) {
	values := r.Header.Values(name)
	if len(values) == 1 {
		if n, err := strconv.ParseInt(values[0], 10, 64); err == nil && n >= 0 && values[0][0] != '+' {
			return n, nil
		}
	}
	return 0, web.BadRequest(name, fmt.Sprintf("header %s must be given once and be a number of bytes, not %q", name, web.Shortened(strings.Join(values, ", "))))
}

// wantedBlob reads the address in the metadata of an upload: pairs of a key and a value in base64, with a space between
// them, divided by commas. Other keys are for the client.
func wantedBlob(meta string) (want blob.Ref, err error) {
	if len(meta) > MaxMetaBytes {
		return want, web.BadRequest(headerUploadMeta, fmt.Sprintf("the metadata must have at most %d bytes, not %d", MaxMetaBytes, len(meta)))
	}
	for _, b := range []byte(meta) {
		if b < ' ' || b > '~' {
			return want, web.BadRequest(headerUploadMeta, "the metadata must be ASCII: keys, and values in base64")
		}
	}
	for pair := range strings.SplitSeq(meta, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(pair), " ")
		if key != metaAddress {
			continue
		}
		text, err := base64.StdEncoding.DecodeString(value)
		if err != nil {
			return want, web.BadRequest(headerUploadMeta, "the value of address is not base64")
		}
		if want, err = blob.Parse(string(text)); err != nil {
			return want, err
		}
	}
	return want, nil
}

// uploadsPath is the prefix of all paths that contain a secret. An upload's id is the only secret in a path: a client
// that knows it can append and remove. Documents that everybody can read contain the ids of jobs, claims and sessions.
const uploadsPath = "/uploads/"

// SecretOf returns the secret in a path, and whether the path must not be logged. It ignores the route, so it also
// hides a path that no route matches. A fileset may have the name uploads.
func SecretOf(path string) (secret string, hidden bool) {
	at := strings.Index(path, uploadsPath)
	if at < 0 || strings.HasPrefix(path, "/filesets/") {
		return "", false
	}
	return path[at+len(uploadsPath):], true
}
