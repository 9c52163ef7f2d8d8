package api

import (
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookq/daybook/api/internal/files"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/internal/testkit"
)

// begin begins an upload, and returns its path.
func (r *rig) begin(size int, headers ...string) string {
	r.Helper()
	a := r.do(http.MethodPost, "/uploads", nil, append(headers, "Upload-Length", strconv.Itoa(size))...)
	a.wantStatus(http.StatusCreated)
	path := a.header.Get("Location")
	testkit.Holds(r, strings.HasPrefix(path, "/uploads/") && a.header.Get("Tus-Resumable") == "1.0.0" &&
		a.header.Get("Upload-Offset") == "0" && a.header.Get("Upload-Expires") != "", a.header)
	return path
}

// append appends to an upload.
func (r *rig) append(path string, offset int, content string, headers ...string) reply {
	r.Helper()
	return r.do(http.MethodPatch, path, strings.NewReader(content), append(headers, "Upload-Offset", strconv.Itoa(offset), "Content-Type", files.MIMEOffset)...)
}

func TestUploads(t *testing.T) {
	r := start(t)
	const content = "in three parts"
	address := addressOf(content)
	options := r.do(http.MethodOptions, "/uploads", nil)
	if options.status != http.StatusNoContent || options.header.Get("Tus-Version") != "1.0.0" || options.header.Get("Tus-Extension") != files.TusExtensions || options.header.Get("Tus-Max-Size") != "68719476736" {
		t.Errorf("OPTIONS: %d %v", options.status, options.header)
	}
	path := r.begin(len(content), "Upload-Metadata", "filename YQ==,address "+base64.StdEncoding.EncodeToString([]byte(address)), "Tus-Resumable", "1.0.0")
	looks := func(offset int, finished bool) {
		t.Helper()
		head := r.do(http.MethodHead, path, nil)
		meta := head.header.Get("Upload-Metadata")
		testkit.Holds(t, meta == "filename YQ==,address "+base64.StdEncoding.EncodeToString([]byte(address)), "at", offset, "the metadata is", meta)
		d := r.get(path).object(http.StatusOK)
		if head.status != http.StatusOK || head.header.Get("Upload-Offset") != strconv.Itoa(offset) || head.header.Get("Upload-Length") != strconv.Itoa(len(content)) || head.header.Get("Cache-Control") != "no-store" ||
			fmt.Sprint(d["offset"]) != strconv.Itoa(offset) || fmt.Sprint(d["size"]) != strconv.Itoa(len(content)) || (d["blob"] == address) != finished || (head.header.Get("Daybook-Blob") == address) != finished {
			t.Errorf("at %d: %d %v, %v", offset, head.status, head.header, d)
		}
	}
	looks(0, false)
	a := r.append(path, 0, content[:3])
	a.wantStatus(http.StatusNoContent)
	testkit.Equal(t, a.header.Get("Upload-Offset"), "3", a.header)
	testkit.Equal(t, a.header.Get("Daybook-Blob"), "", a.header)
	looks(3, false)
	a = r.append(path, 0, content)
	a.refused(http.StatusConflict, "offset_differs")
	testkit.Equal(t, a.header.Get("Upload-Offset"), "3", a.header)
	r.append(path, 3, content).refused(http.StatusRequestEntityTooLarge, web.CodeTooLarge)
	r.do(http.MethodPatch, path, chunked(content), "Upload-Offset", "3", "Content-Type", files.MIMEOffset).refused(http.StatusRequestEntityTooLarge, web.CodeTooLarge)
	looks(3, false)
	r.get("/blobs/"+address).refused(http.StatusNotFound, "blob_not_found")
	r.append(path, 3, content[3:7]).wantStatus(http.StatusNoContent)
	a = r.append(path, 7, content[7:])
	a.wantStatus(http.StatusNoContent)
	testkit.Holds(t, a.header.Get("Daybook-Blob") == address && a.header.Get("Location") == "/blobs/"+address &&
		a.header.Get("Upload-Offset") == strconv.Itoa(len(content)), "the last answer has", a.header)
	looks(len(content), true)
	testkit.Equal(t, r.get("/blobs/"+address).body, content, "the blob")
	r.append(path, len(content), "").refused(http.StatusConflict, "offset_differs")
	r.do(http.MethodDelete, path, nil).wantStatus(http.StatusNoContent)
	r.do(http.MethodDelete, path, nil).refused(http.StatusNotFound, "upload_not_found")
	r.get("/blobs/" + address).wantStatus(http.StatusOK)

	// Creations with all of the bytes, and of an empty blob.
	whole := r.do(http.MethodPost, "/uploads", strings.NewReader("whole"), "Upload-Length", "5", "Content-Type", files.MIMEOffset)
	whole.wantStatus(http.StatusCreated)
	testkit.Holds(t, whole.header.Get("Daybook-Blob") == addressOf("whole") &&
		strings.HasPrefix(whole.header.Get("Location"), "/uploads/"), whole.header)
	begun := r.do(http.MethodPost, "/uploads", strings.NewReader("who"), "Upload-Length", "5", "Content-Type", files.MIMEOffset)
	begun.wantStatus(http.StatusCreated)
	r.append(begun.header.Get("Location"), 3, "le").wantStatus(http.StatusNoContent)
	empty := r.do(http.MethodPost, "/uploads", nil, "Upload-Length", "0")
	testkit.Holds(t, empty.header.Get("Daybook-Blob") == addressOf(""), empty.status, empty.header)
	testkit.Contains(t, r.get("/metrics").body, "\ndaybook_blobs_put_total 4\n")
}

func TestUploadRefusals(t *testing.T) {
	testkit.OneByOne(t)
	r := start(t, func(o *setup) { o.blobOptions = blob.Options{MaxBytes: 1000, QuotaBytes: 1500} })
	post := func(headers ...string) reply { t.Helper(); return r.do(http.MethodPost, "/uploads", nil, headers...) }
	for _, length := range []string{"", "-1", "+1", "x", "1.5", "99999999999999999999"} {
		post("Upload-Length", length).refused(http.StatusBadRequest, web.CodeBadRequest)
	}
	post().refused(http.StatusBadRequest, web.CodeBadRequest)
	post("Upload-Defer-Length", "1").refused(http.StatusBadRequest, web.CodeBadRequest)
	post("Upload-Length", "1", "Tus-Resumable", "0.2.2").refused(http.StatusPreconditionFailed, "tus_version")
	post("Upload-Length", "1", "Upload-Metadata", "address !").refused(http.StatusBadRequest, web.CodeBadRequest)
	post("Upload-Length", "1", "Upload-Metadata", "address eA==").refused(http.StatusBadRequest, "bad_address")
	post("Upload-Length", "1", "Upload-Metadata", "name \xff").refused(http.StatusBadRequest, web.CodeBadRequest)
	post("Upload-Length", "1", "Upload-Metadata", strings.Repeat("x", files.MaxMetaBytes+1)).refused(http.StatusBadRequest, web.CodeBadRequest)
	post("Upload-Length", "1001").refused(http.StatusRequestEntityTooLarge, web.CodeTooLarge)
	r.put("/blobs", strings.Repeat("x", 1000)).wantStatus(http.StatusCreated)
	post("Upload-Length", "501").refused(http.StatusInsufficientStorage, "blob_quota")
	r.do(http.MethodPost, "/uploads", strings.NewReader("xx"), "Upload-Length", "1", "Content-Type", files.MIMEOffset).refused(http.StatusRequestEntityTooLarge, web.CodeTooLarge)
	r.do(http.MethodPost, "/uploads", chunked("xx"), "Upload-Length", "1", "Content-Type", files.MIMEOffset).refused(http.StatusRequestEntityTooLarge, web.CodeTooLarge)
	other := "address " + base64.StdEncoding.EncodeToString([]byte(addressOf("other")))
	r.do(http.MethodPost, "/uploads", strings.NewReader("x"), "Upload-Length", "1", "Upload-Metadata", other, "Content-Type", files.MIMEOffset).refused(http.StatusUnprocessableEntity, "wrong_digest")
	testkit.Equal(t, len(testkit.Must(os.ReadDir(filepath.Join(r.blobs.dir, "uploads")))(t)), 0, "refused uploads have left")
	path := r.begin(1, "Upload-Metadata", other)
	r.append(path, 0, "x").refused(http.StatusUnprocessableEntity, "wrong_digest")
	r.get(path).refused(http.StatusNotFound, "upload_not_found")
	path = r.begin(10)
	r.do(http.MethodPatch, path, strings.NewReader("x"), "Content-Type", files.MIMEOffset).refused(http.StatusBadRequest, web.CodeBadRequest)
	r.do(http.MethodPatch, path, strings.NewReader("x"), "Content-Type", "text/plain", "Upload-Offset", "0").refused(http.StatusUnsupportedMediaType, web.CodeUnsupported)
	r.append("/uploads/0123", 0, "x").refused(http.StatusNotFound, "upload_not_found")
	r.blobs.wait(blob.UploadExpiry + time.Minute)
	r.append(path, 0, "x").refused(http.StatusNotFound, "upload_not_found")
	first := r.begin(1)
	for range blob.MaxUploads - 1 {
		r.begin(1)
	}
	post("Upload-Length", "1").refused(http.StatusTooManyRequests, "too_many_uploads")
	r.do(http.MethodDelete, first, nil).wantStatus(http.StatusNoContent)
	r.begin(1)
}

// partOf sends a PATCH of size bytes from offset, but only a part of them.
func (r *rig) partOf(path string, offset, size int, part string) net.Conn {
	r.Helper()
	c := testkit.Must(net.Dial("tcp", strings.TrimPrefix(r.url, "http://")))(r)
	testkit.Must(fmt.Fprintf(c, "PATCH %s HTTP/1.1\r\nHost: localhost\r\nUpload-Offset: %d\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", path, offset, files.MIMEOffset, size, part))(r)
	return c
}

// untilBusy waits until a request uses the upload, and untilFree until none does.
func (r *rig) untilBusy(path string) {
	r.Helper()
	r.until("the upload is busy", func() bool { return r.isBusy(path) })
}

func (r *rig) untilFree(path string) {
	r.Helper()
	r.until("the upload is free", func() bool { return !r.isBusy(path) })
}

func (r *rig) isBusy(path string) bool {
	r.Helper()
	s := testkit.Must(r.blobs.Store())(r)
	u := testkit.Must(s.Upload(r.Context(), "", strings.TrimPrefix(path, "/uploads/")))(r)
	return u.State().Busy
}

// TestUploadConnections: bytes that arrived before a connection was lost count. A silent connection is closed, and does
// not block the upload for longer than other requests may wait.
func TestUploadConnections(t *testing.T) {
	t.Parallel() // it waits for slow bodies
	r := start(t)
	const content = "over several connections"
	path := r.begin(len(content))
	offset := func() string { return r.do(http.MethodHead, path, nil).header.Get("Upload-Offset") }
	testkit.NoError(t, r.partOf(path, 0, len(content), content[:5]).Close())
	r.until("the bytes of the lost connection count", func() bool { return offset() == "5" })
	r.untilFree(path) // the bytes count before the request has ended
	silent := r.partOf(path, 5, len(content)-5, content[5:9])
	defer silent.Close()
	r.untilBusy(path)
	r.append(path, 5, "").refused(http.StatusLocked, "upload_busy")
	answer := testkit.Must(io.ReadAll(silent))(t)
	testkit.Holds(t, strings.HasPrefix(string(answer), "HTTP/1.1 408 "), "the silent connection got", answer)
	r.until("the bytes of the silent connection count", func() bool { return offset() == "9" })
	r.append(path, 9, content[9:]).wantStatus(http.StatusNoContent)
	testkit.Equal(t, r.get("/blobs/"+addressOf(content)).body, content, "the blob")
}

// TestUploadGoesOnAtOnce: a client that has lost its connection continues at once, even if the server has not noticed
// the loss yet. HEAD has an offset at every moment.
func TestUploadGoesOnAtOnce(t *testing.T) {
	r := start(t)
	const content, rounds = "0123456789", 30
	for range rounds {
		path := r.begin(len(content))
		c := r.partOf(path, 0, len(content), content[:4])
		r.untilBusy(path)
		testkit.NoError(t, c.Close())
		a := r.append(path, 0, "") // waits for the other append; chance decides whether that append has received its bytes
		testkit.Holds(t, a.status == http.StatusNoContent || a.status == http.StatusConflict, a.status, a.body)
		head := r.do(http.MethodHead, path, nil)
		offset, err := strconv.Atoi(head.header.Get("Upload-Offset"))
		testkit.NoError(t, err, head.status, head.header)
		r.append(path, offset, content[offset:]).wantStatus(http.StatusNoContent)
	}
	// Many requests for an upload never hinder its last append.
	for range rounds {
		path := r.begin(len(content))
		var looks sync.WaitGroup
		for range 4 {
			looks.Go(func() {
				for range 3 {
					if head := r.do(http.MethodHead, path, nil); head.status != http.StatusOK || head.header.Get("Upload-Offset") == "" {
						t.Errorf("%d %v", head.status, head.header)
						return
					}
				}
			})
		}
		a := r.append(path, 0, content)
		looks.Wait()
		testkit.Holds(t, a.status == http.StatusNoContent && a.header.Get("Daybook-Blob") == addressOf(content), a.status, a.header, a.body)
	}
	testkit.Contains(t, r.get("/metrics").body, fmt.Sprintf("\ndaybook_blobs_put_total %d\n", 2*rounds))
}

// statusesOfUploads makes requests that get the statuses of the routes of uploads.
func (r *rig) statusesOfUploads(o *tried, do func(o *tried, path, body string, headers ...string) reply) {
	r.Helper()
	do(o, o.path, o.body, "Tus-Resumable", "2").refused(http.StatusPreconditionFailed, "tus_version")
	wrong := []string{"Upload-Metadata", "address " + base64.StdEncoding.EncodeToString([]byte(addressOf("other")))}
	switch o.name() {
	case "POST /uploads":
		do(o, o.path, "{}", wrong...).refused(http.StatusUnprocessableEntity, "wrong_digest")
	case "GET /uploads/{id}":
		r.blobs.fail(blob.ErrNoSpace)
		do(o, o.path, "").refused(http.StatusInsufficientStorage, "disk_full")
		r.blobs.fail(nil)
	case "PATCH /uploads/{id}", "DELETE /uploads/{id}":
		path := r.begin(2, wrong...)
		if o.method == http.MethodPatch {
			do(o, path, "{}").refused(http.StatusUnprocessableEntity, "wrong_digest")
			path = r.begin(3)
			do(o, path, "{").wantStatus(http.StatusNoContent)
			do(o, path, "}").refused(http.StatusConflict, "offset_differs")
		}
		path = r.begin(5)
		busy := r.partOf(path, 0, 5, "x")
		r.untilBusy(path)
		do(o, path, o.body).refused(http.StatusLocked, "upload_busy")
		testkit.Check(r, busy.Close())
	}
}
