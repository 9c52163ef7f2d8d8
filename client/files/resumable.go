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
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/daybookq/daybook/client/internal/transport"
	"github.com/daybookq/daybook/client/problem"
	"github.com/daybookq/daybook/job/digest"
)

const (
	// maxBegun is how many uploads Upload begins for one blob. The server may lose one: a new version of the server
	// cannot always continue the uploads of an old version.
	maxBegun    = 3
	uploadsPath = "/uploads"
	uploadType  = "application/offset+octet-stream"
)

// UploadOptions say how Upload sends a blob. The zero value works.
type UploadOptions struct {
	// Resume is the path of an upload that an earlier call has begun, perhaps in another process. If the server does
	// not have it any more, or it has other bytes, Upload begins a new upload.
	Resume string
	// Begun is called with the path of each upload that begins, before its first byte is sent. The path is a secret:
	// anybody who knows it can append to the upload and remove it. If Begun returns an error, Upload ends with it.
	Begun func(path string) error
	// Progress is called with the number of bytes sent, each time that it has grown. It must return soon.
	Progress func(sent, size int64)
}

// Upload stores the bytes of r from its position to its end, as Put does. If the connection breaks or the
// server restarts, it continues after the bytes that the server has, as long as it makes progress within
// Options.RetryFor. If the process ends, a later process continues with UploadOptions.Resume. The server keeps an
// upload for a day after its last progress. In the result Existed is false, and ChangedAt has whole seconds.
func (s *Blobs) Upload(ctx context.Context, r io.ReadSeeker, o UploadOptions) (Blob, error) {
	body := transport.NewUpload(r)
	if body.Seeker == nil {
		return Blob{}, fmt.Errorf("%w: the position of the blob's reader cannot be set; use Put", problem.ErrBadRequest)
	}
	u := &blobUpload{blobs: s, o: o, part: part{r: r, base: body.From, size: body.Size, progress: o.Progress}}
	u.sum.restart()
	if isUpload(o.Resume) {
		u.path = o.Resume
	}
	return u.run(ctx)
}

// isUpload reports whether a text can be the path of an upload. The text may be read from a file, or be sent by a
// foreign server.
func isUpload(path string) bool {
	id, ok := strings.CutPrefix(path, uploadsPath+"/")
	return ok && id != "" && len(id) <= 64 && !strings.ContainsFunc(id, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z')
	})
}

// blobUpload is a resumable upload in progress.
type blobUpload struct {
	blobs *Blobs
	o     UploadOptions
	part  part
	sum   runningSum

	path   string // "": none has begun
	begun  int    // number of uploads that were begun
	known  bool   // offset is how many bytes the server has
	offset int64
	blob   string // its address, when the server has stored it
	date   string // of the answer with the address

	sent   bool      // this call has sent the last bytes
	best   int64     // the largest offset
	failed time.Time // of the first failure since the last progress; zero if there was none
}

var errOtherBytes = errors.New("the upload has other bytes than the file")

// run sends the blob, and begins again if the server has lost the upload.
func (u *blobUpload) run(ctx context.Context) (Blob, error) {
	for attempt := 0; ; attempt++ {
		resumed := u.path != "" && u.begun == 0
		err := u.step(ctx)
		if err == nil && u.blob != "" && u.sent {
			var b Blob
			if b, err = u.check(ctx); err == nil {
				return b, nil
			}
		}
		switch {
		case u.part.failed != nil: // also if the server has answered
			return Blob{}, u.part.failed
		case err == nil:
			attempt = -1
			continue
		case errors.Is(err, errOtherBytes) && resumed || transport.StatusOf(err) == http.StatusNotFound && u.path != "" && u.begun < maxBegun:
			u.blobs.c.Logger.DebugContext(ctx, "the upload of a blob begins again", "path", u.path, "error", err)
			u.forget()
			continue
		}
		wait, again := transport.RetryRules{Repeat: transport.Repeatable, Persistent: u.blobs.c.Persistent}.Wait(err, attempt)
		if status := transport.StatusOf(err); status == http.StatusConflict || status == http.StatusLocked {
			again = true // the server still works on the previous request
		}
		if u.failed.IsZero() {
			u.failed = time.Now()
		}
		if ctx.Err() != nil {
			return Blob{}, errors.Join(ctx.Err(), err)
		}
		if !again || time.Since(u.failed)+wait > u.blobs.c.RetryFor {
			return Blob{}, err
		}
		u.known = false
		u.blobs.c.Logger.DebugContext(ctx, "going on with the upload of a blob", "path", u.path, "after", wait, "error", err)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return Blob{}, errors.Join(ctx.Err(), err)
		}
	}
}

// step makes one request, and reads the bytes of the file that it needs.
func (u *blobUpload) step(ctx context.Context) error {
	switch {
	case u.path == "":
		return u.begin(ctx)
	case !u.known:
		return u.look(ctx)
	case u.blob != "" && !u.sent:
		return u.renew(ctx)
	case u.offset < u.part.size:
		if err := u.hashTo(ctx, u.offset); err != nil {
			return err
		}
		return u.send(ctx)
	}
	u.known, u.failed = false, time.Time{} // the server may take minutes to copy the blob to a bucket, and it answers, so this is no failure
	return fmt.Errorf("%w: the server has all bytes of the blob and has not stored it yet", problem.ErrUnavailable)
}

func (u *blobUpload) request(method string) transport.Request {
	return transport.Request{Method: method, Path: u.path, Query: ofClient(u.blobs.client), Repeat: transport.Repeatable}
}

// begin begins an upload.
func (u *blobUpload) begin(ctx context.Context) error {
	r := u.request(http.MethodPost)
	r.Path, r.Header = uploadsPath, http.Header{"Upload-Length": {strconv.FormatInt(u.part.size, 10)}}
	a, err := u.blobs.c.Once(ctx, r)
	if err != nil {
		return err
	}
	path, ok := uploadPath(a.URL, a.Header.Get("Location"))
	if !ok {
		return a.Unreadable(fmt.Errorf("the Location %q is not that of an upload", a.Header.Get("Location")))
	}
	u.path, u.known, u.offset = path, true, 0
	u.begun++
	u.stored(&a, a.Header.Get("Daybook-Blob"))
	if u.o.Begun != nil {
		return u.o.Begun(path)
	}
	return nil
}

// uploadPath returns the path of an upload from the Location in the answer. A proxy that serves the API below a path
// adds this path to the Location or leaves it out, and may turn the Location into a URL.
func uploadPath(server, location string) (path string, ok bool) {
	l, err := url.Parse(location)
	if err != nil {
		return "", false
	}
	path = l.Path
	if base, err := url.Parse(server); err == nil && !isUpload(path) {
		path = strings.TrimPrefix(path, base.Path)
	}
	return path, isUpload(path)
}

// look requests the offset of the upload.
func (u *blobUpload) look(ctx context.Context) error {
	a, err := u.blobs.c.Once(ctx, u.request(http.MethodGet))
	if err != nil {
		return err
	}
	var d struct {
		Size   int64  `json:"size"`
		Offset int64  `json:"offset"`
		Blob   string `json:"blob"`
	}
	if err := transport.Decode(a, &d); err != nil {
		return err
	}
	if d.Offset < 0 || d.Offset > d.Size {
		return a.Unreadable(fmt.Errorf("the upload has %d of %d bytes", d.Offset, d.Size))
	}
	if d.Size != u.part.size {
		return fmt.Errorf("%w: it is for %d bytes, and the file has %d", errOtherBytes, d.Size, u.part.size)
	}
	u.reached(d.Offset)
	u.stored(&a, d.Blob)
	return nil
}

// send sends the rest of the blob.
func (u *blobUpload) send(ctx context.Context) error {
	r := u.request(http.MethodPatch)
	r.ContentType, r.Header = uploadType, http.Header{"Upload-Offset": {strconv.FormatInt(u.offset, 10)}}
	u.sum.from = u.offset
	r.Upload = &transport.Upload{R: &u.part, Seeker: &u.part, From: u.offset, Size: u.part.size - u.offset, Hash: &u.sum}
	a, err := u.blobs.c.Once(ctx, r)
	if err != nil {
		return err
	}
	u.sent = true
	u.reached(u.part.size)
	if u.stored(&a, a.Header.Get("Daybook-Blob")); u.blob == "" {
		u.known = false // another request looks at the upload, and stores the blob
	}
	return nil
}

// reached records how many bytes the server has.
func (u *blobUpload) reached(offset int64) {
	u.known, u.offset = true, offset
	if offset > u.best {
		u.best, u.failed = offset, time.Time{}
	}
}

// stored records that the server has stored the blob, unless the address is empty.
func (u *blobUpload) stored(a *transport.Answer, address string) {
	u.blob, u.date = address, a.Header.Get("Date")
}

// forget discards the upload, so that a new upload begins.
func (u *blobUpload) forget() {
	u.path, u.blob, u.known, u.sent, u.offset, u.best = "", "", false, false, 0, 0
	u.sum.restart()
}

// renew makes sure that a blob is still stored which an earlier call has stored, or this call before its answer was
// lost. The server may have removed the blob since, because no job names it.
func (u *blobUpload) renew(ctx context.Context) error {
	missing, err := u.blobs.Missing(ctx, []string{u.blob})
	if err == nil && len(missing) > 0 {
		if u.begun == maxBegun {
			return fmt.Errorf("%w: the server has stored %s %d times, and does not have it", problem.ErrUnexpectedAnswer, u.blob, u.begun)
		}
		u.forget()
		return nil
	}
	u.sent = err == nil
	return err
}

// hashTo reads bytes that an earlier process has sent.
func (u *blobUpload) hashTo(ctx context.Context, offset int64) error {
	if u.sum.done >= offset {
		return nil
	}
	if _, err := u.part.Seek(u.sum.done, io.SeekStart); err != nil {
		return err
	}
	u.sum.at = u.sum.done
	progress := u.part.progress
	u.part.progress = nil
	defer func() { u.part.progress = progress }()
	buf := make([]byte, 256<<10)
	for u.sum.done < offset {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := u.part.Read(buf[:min(int64(len(buf)), offset-u.sum.done)])
		u.sum.Write(buf[:n])
		if err != nil && u.sum.done < offset {
			return err
		}
	}
	return nil
}

// check compares the address with the bytes of the file, and describes the blob.
func (u *blobUpload) check(ctx context.Context) (Blob, error) {
	if err := u.hashTo(ctx, u.part.size); err != nil { // an earlier process may have sent all of it
		return Blob{}, err
	}
	sum := digest.SHA256(u.sum.sha256.Sum(nil)).String()
	if u.blob != sum {
		return Blob{}, fmt.Errorf("%w: %w: the server has stored %s, and the file has the digest %s; it may have been changed while it was sent", problem.ErrUnexpectedAnswer, errOtherBytes, u.blob, sum)
	}
	b := Blob{Address: sum, SHA1: digest.SHA1(u.sum.sha1.Sum(nil)).String(), Size: u.part.size}
	if at, err := http.ParseTime(u.date); err == nil {
		b.ChangedAt = at.UnixMilli()
	}
	return b, nil
}

// part is the part of a file that is sent. Its Read fails if the file has become shorter. Read records each error of
// the file, since repeating the request would not help.
type part struct {
	r          io.ReadSeeker
	base, size int64
	at         int64
	progress   func(sent, size int64)
	failed     error
}

// Seek sets the position, from the beginning of the part.
func (p *part) Seek(offset int64, whence int) (int64, error) {
	if whence != io.SeekStart {
		return p.at, errors.New("seek in a blob: only from its beginning")
	}
	if _, err := p.r.Seek(p.base+offset, io.SeekStart); err != nil {
		p.failed = fmt.Errorf("read the blob again: %w", err)
		return p.at, p.failed
	}
	p.at = offset
	return offset, nil
}

func (p *part) Read(b []byte) (int, error) {
	if p.at == p.size {
		return 0, io.EOF
	}
	n, err := p.r.Read(b[:min(int64(len(b)), p.size-p.at)])
	p.at += int64(n)
	switch {
	case err == io.EOF && p.at < p.size:
		err = fmt.Errorf("the blob has become shorter: it had %d bytes, and has %d: %w", p.size, p.at, io.ErrUnexpectedEOF)
		p.failed = err
	case err != nil && err != io.EOF:
		p.failed = err
	}
	if n > 0 && p.progress != nil {
		p.progress(p.at, p.size)
	}
	return n, err
}

// runningSum has the digests of the first bytes of a blob. It skips bytes that are sent again. If the file changes
// during the upload, the digests differ from the bytes at the server, and check reports this at the end.
type runningSum struct {
	sha256, sha1 hash.Hash
	done         int64 // bytes that the digests have
	at           int64 // where the next Write is. Invariant: at most done
	from         int64 // where the next try begins
}

func (s *runningSum) restart() { *s = runningSum{sha256: sha256.New(), sha1: sha1.New()} }

// Reset begins another try.
func (s *runningSum) Reset() { s.at = s.from }

// Sum returns the SHA-256.
func (s *runningSum) Sum(b []byte) []byte { return s.sha256.Sum(b) }

func (s *runningSum) Write(b []byte) (int, error) {
	known := min(max(s.done-s.at, 0), int64(len(b)))
	s.at += int64(len(b))
	s.sha256.Write(b[known:])
	s.sha1.Write(b[known:])
	s.done = max(s.done, s.at)
	return len(b), nil
}
