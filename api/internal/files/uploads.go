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

	"github.com/daybookq/daybook/api/internal/openapi"
	"github.com/daybookq/daybook/api/internal/operation"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/blob"
)

// Resumable uploads use the protocol tus 1.0.0 (https://tus.io/protocols/resumable-upload): the core protocol, and the
// extensions creation, creation-with-upload, termination and expiration.
const (
	tusVersion    = "1.0.0"
	TusExtensions = "creation,creation-with-upload,termination,expiration"

	headerTus           = "Tus-Resumable"
	headerUploadOffset  = "Upload-Offset"
	headerUploadExpires = "Upload-Expires"
	headerUploadLength  = "Upload-Length"
	headerUploadMeta    = "Upload-Metadata"
	headerDeferLength   = "Upload-Defer-Length"
	headerBlob          = "Daybook-Blob" // the address of the blob of a finished upload

	MIMEOffset = "application/offset+octet-stream"
	// metaAddress is the metadata key whose value is the address that the upload must have.
	metaAddress = "address"
	// MaxMetaBytes is much longer than an address and a file name.
	MaxMetaBytes = blob.MaxMetadata
)

// Uploads answers the routes of resumable uploads.
type Uploads struct{ blobs *Blobs }

func NewUploads(blobs *Blobs) *Uploads { return &Uploads{blobs} }

// Routes returns the routes of resumable uploads.
func (s *Uploads) Routes(r operation.Rules) []Route {
	part := map[string]openapi.Shape{MIMEOffset: openapi.Plain(openapi.Of("string"))}
	const tag = "Blobs"
	list := []Route{
		{http.MethodOptions, "/uploads", false, operation.Written(r, http.MethodOptions, "/uploads", operation.About{
			ID: "uploadOptions", Tag: tag, Summary: "Find out what resumable uploads support", Faultless: true, Refusals: []int{412},
			Replies: []operation.Reply{{Status: http.StatusNoContent, Text: "The headers Tus-Version, Tus-Extension and Tus-Max-Size say it.", Headers: []string{headerTus}}},
		}, s.options)},
		{http.MethodPost, "/uploads", false, operation.Written(r, http.MethodPost, "/uploads", operation.About{
			ID: "createUpload", Tag: tag, Summary: "Begin a resumable upload",
			Text: "Begins an upload of a blob, as tus 1.0.0 describes it. PATCH appends its bytes. The upload is removed if it has no\n" +
				"progress for 24 hours. A body is its beginning.\n",
			Bodies: part, BodyText: "the beginning of the blob", Refusals: []int{412, 422, 501, 503, 507},
			Replies: []operation.Reply{{Status: http.StatusCreated, Text: "The upload has begun. Location is its path.",
				Headers: []string{echo.HeaderLocation, headerTus, headerUploadOffset, headerUploadExpires, headerBlob}}},
		}, s.create)},
		{http.MethodGet, "/uploads/:id", false, operation.Written(r, http.MethodGet, "/uploads/:id", operation.About{
			ID: "upload", Tag: tag, Summary: "Look at a resumable upload", Text: "HEAD answers with the same headers, as tus requires it.", Refusals: []int{404, 412, 501, 503, 507},
			Replies: []operation.Reply{{Status: http.StatusOK, Text: "the upload", Headers: []string{headerTus, headerUploadOffset, headerUploadMeta, headerUploadExpires, headerBlob},
				Content: map[string]openapi.Shape{web.MIMEJSON: openapi.JSON[uploadDocument](openapi.InAnswer)}}},
		}, s.get)},
		{http.MethodPatch, "/uploads/:id", true, operation.Written(r, http.MethodPatch, "/uploads/:id", operation.About{
			ID: "appendUpload", Tag: tag, Summary: "Append to a resumable upload",
			Text: "The body is appended at Upload-Offset, which must be the bytes that the upload has. The answer comes when they are\n" +
				"on disk. If the connection is lost, HEAD says how many are. After the last byte, the blob is stored: Daybook-Blob is\n" +
				"its address.\n",
			Bodies: part, BodyText: "the next bytes of the blob", BodyRequired: true, Refusals: []int{404, 409, 412, 422, 423, 501, 503, 507},
			Replies: []operation.Reply{{Status: http.StatusNoContent, Text: "The bytes are stored. If the upload is finished, Location is the path of the blob.",
				Headers: []string{echo.HeaderLocation, headerTus, headerUploadOffset, headerUploadExpires, headerBlob}}},
		}, s.append)},
		{http.MethodDelete, "/uploads/:id", false, operation.Written(r, http.MethodDelete, "/uploads/:id", operation.About{
			ID: "removeUpload", Tag: tag, Summary: "Remove a resumable upload", Text: "Removes an upload with its bytes. A blob that it has stored stays.",
			Refusals: []int{404, 412, 423, 501, 503},
			Replies:  []operation.Reply{{Status: http.StatusNoContent, Text: "The upload is removed.", Headers: []string{headerTus}}},
		}, s.remove)},
	}
	for i := range list {
		list[i].Handle = tusRoute(list[i].Handle)
	}
	return list
}

// tusRequest has the headers that all requests for uploads share.
type (
	tusRequest struct {
		Version string `header:"Tus-Resumable" read:"elsewhere" doc:"version of tus; the server supports 1.0.0"`
	}
	newUpload struct {
		ofClient
		tusRequest
		Length   int64  `header:"Upload-Length" read:"elsewhere" required:"true" format:"int64" minimum:"0" doc:"bytes of the blob"`
		Metadata string `header:"Upload-Metadata" read:"elsewhere" maxLength:"4096" doc:"pairs of a key and a value in base64, divided by commas. The server uses only address: the address that the blob must have, in any form"`
	}
	oneUpload struct {
		ID string `path:"id" doc:"the id of an upload, as its path has it"`
		ofClient
		tusRequest
	}
	uploadPart struct {
		oneUpload
		Offset int64 `header:"Upload-Offset" read:"elsewhere" required:"true" format:"int64" minimum:"0" doc:"bytes that the upload has"`
	}
)

// uploadDocument describes a resumable upload.
type uploadDocument struct {
	ID        string  `json:"upload_id" pattern:"^u[0-9a-f]{32}$"`
	Size      int64   `json:"size" minimum:"0" doc:"bytes of the blob"`
	Offset    int64   `json:"offset" minimum:"0" doc:"bytes that are on disk"`
	ExpiresAt int64   `json:"expires_at" doc:"when it is removed if there is no progress"`
	Blob      *string `json:"blob" doc:"address of the blob; null until all bytes are there"`
}

// tusRoute refuses other versions of the protocol. It also serves a request without a version.
func tusRoute(handle echo.HandlerFunc) echo.HandlerFunc {
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

// options answers with the features that the server supports.
func (s *Uploads) options(c echo.Context, _ *tusRequest) error {
	h := c.Response().Header()
	h.Set("Tus-Version", tusVersion)
	h.Set("Tus-Extension", TusExtensions)
	h.Set("Tus-Max-Size", strconv.FormatInt(blob.MaxBlobBytes, 10))
	h.Set(echo.HeaderAllow, "OPTIONS, POST")
	return c.NoContent(http.StatusNoContent)
}

// create begins an upload. If there is a body, its bytes are the first part.
func (s *Uploads) create(c echo.Context, in *newUpload) error {
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
		of, client, err := s.blobs.of(in.ofClient)
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
			err = s.finishUpload(c, client, u)
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

// append appends the body. The answer to the last part has the address of the
// blob.
func (s *Uploads) append(c echo.Context, in *uploadPart) error {
	r := c.Request()
	offset, err := numberHeader(r, headerUploadOffset)
	if err != nil {
		return err
	}
	return s.appendBody(c, func(body *web.StreamedBody) (int, error) {
		u, client, err := s.uploadOf(c, &in.oneUpload)
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
		if err = s.finishUpload(c, client, u); storesLater(err) {
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

// get answers with an upload.
func (s *Uploads) get(c echo.Context, in *oneUpload) error {
	u, client, err := s.uploadOf(c, in)
	if err != nil {
		return err
	}
	// A server that was stopped after the last append may not have stored the blob.
	if err := s.finishUpload(c, client, u); err != nil && !storesLater(err) {
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

// remove removes an upload.
func (s *Uploads) remove(c echo.Context, in *oneUpload) error {
	u, _, err := s.uploadOf(c, in)
	if err != nil {
		return err
	}
	if err := u.Remove(c.Request().Context()); err != nil {
		return uploadError(err)
	}
	return c.NoContent(http.StatusNoContent)
}

// uploadOf returns the upload in the path, and the client that it belongs to.
func (s *Uploads) uploadOf(c echo.Context, in *oneUpload) (u *blob.Upload, client string, err error) {
	of, client, err := s.blobs.of(in.ofClient)
	if err != nil {
		return nil, "", err
	}
	if u, err = of.Upload(c.Request().Context(), client, in.ID); err != nil {
		return nil, "", uploadError(err)
	}
	return u, client, nil
}

// finishUpload stores the blob if all of its bytes have arrived, and sets the headers that describe the upload. It sets
// them even if another request is using the upload, or too many files are open.
func (s *Uploads) finishUpload(c echo.Context, client string, u *blob.Upload) (err error) {
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
	h.Set(headerUploadExpires, state.Expires.UTC().Format(http.TimeFormat))
	if state.Blob != nil {
		h.Set(headerBlob, state.Blob.String())
		h.Set(echo.HeaderLocation, blobLocation(client, *state.Blob))
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
