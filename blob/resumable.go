package blob

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	// MaxUploads is the largest number of resumable uploads of a client.
	MaxUploads = 1000
	// MaxAllUploads is the largest number of resumable uploads of all clients together. The state of each takes up to 5 KB
	// of memory, and a start reads all of them.
	MaxAllUploads = 10_000
	// UploadExpiry is the time for which a resumable upload is kept without progress, and its result after the end.
	UploadExpiry = 24 * time.Hour
	// checkpointEvery is the number of bytes after which an append makes its received bytes durable. So a crash of the
	// server costs a client no more than that.
	checkpointEvery = 64 << 20

	// MaxMetadata is the largest number of bytes of an upload's metadata.
	MaxMetadata = 4096
	// receivingPatience is the time that a call waits for another call that is receiving from its client. If the
	// connection of that client was just lost, the other call will notice.
	receivingPatience = 250 * time.Millisecond
	// endingPatience is the time that it then waits until the bytes that the other call has received are durable.
	endingPatience = 5 * time.Second

	resumablePrefix = "resumable-" // of the files of resumable uploads
	stateSuffix     = ".json"
)

// Upload is a blob that arrives in several parts. Its methods may be called by many goroutines. One call of Describe,
// Append, Finish or Remove runs at a time. A second call waits up to 5 seconds, but returns ErrBusy after a quarter of
// a second if an Append is still receiving its stream.
//
// The bytes are in the file uploads/resumable-<id>, and the state is in another file with the suffix .json. The state
// is replaced as a whole, after the bytes that it counts are durable.
type Upload struct {
	id string

	// Only the goroutine that has set busy uses these.
	u     *incoming
	saved savedUpload // as it is in the file
	// unsure: the file may have a later state than saved, because writing it has failed. It must be written again
	// before the bytes that it counts change.
	unsure bool

	mu      sync.Mutex // guards the fields below
	busy    bool
	ending  bool          // its user needs nothing more from a client, and so is done soon
	changed chan struct{} // closed when one of these changes
	gone    bool          // it was removed
	state   UploadState
}

// UploadState describes an upload.
type UploadState struct {
	ID      string    // secret: whoever knows it may append
	Size    int64     // of the blob; -1: not known yet
	Offset  int64     // number of durable bytes
	Expires time.Time // the upload is removed then, unless there is progress
	Blob    *Address  // set when the upload is finished
	Busy    bool      // an Append, Finish or Remove is running
	// Metadata is the text of Describe.
	Metadata string
}

// NewUpload begins an upload that can be resumed, even after a restart. size is the size of the blob, or -1 if it is not
// known yet. It returns ErrTooLarge, ErrQuota and ErrNoSpace if the blob would be refused, and ErrUploads if the client
// already has MaxUploads, or all clients together have MaxAllUploads.
func (s *Store) NewUpload(ctx context.Context, client string, size int64, want Ref) (_ *Upload, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if size > s.o.MaxBytes {
		return nil, fmt.Errorf("%w: it has %d bytes, more than %d", ErrTooLarge, size, s.o.MaxBytes)
	}
	c, leave, err := s.enter(ctx, client)
	if err != nil {
		return nil, err
	}
	defer leave()
	credit := s.credit(ctx, client, want)
	if err := s.room(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	err = s.fits(c, max(size, 0)-credit) // it counts when it has arrived
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	var random [16]byte
	rand.Read(random[:])
	free, err := s.files.take(ctx, uploadFiles)
	if err != nil {
		return nil, err
	}
	defer free()
	u := s.newIncoming(client, c)
	r := &Upload{id: "u" + hex.EncodeToString(random[:]), u: u, busy: true, changed: make(chan struct{})}
	r.saved = savedUpload{Client: client, Size: max(size, -1)}
	if want.SHA256 != nil {
		r.saved.WantSHA256 = want.SHA256.String()
	}
	if want.SHA1 != nil {
		r.saved.WantSHA1 = want.SHA1.String()
	}
	if err := s.addUpload(r); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(noSpace("begin an upload", err), r.drop())
		} else {
			r.release()
		}
	}()
	u.Path = s.dataPath(r.id)
	if u.f, err = os.OpenFile(u.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return nil, err
	}
	if err := r.save(); err != nil {
		return nil, err
	}
	f := u.f
	u.f = nil
	return r, f.Close()
}

// addUpload makes an upload known. If its client, or all clients together, have too many, it first drops their finished
// and expired uploads.
func (s *Store) addUpload(r *Upload) (err error) {
	for range 2 {
		of := r.u.client
		s.mu.Lock()
		switch {
		case of.uploads >= s.maxUploads:
			err = fmt.Errorf("%w: the client has %d; next step: finish or remove some, or try again in %v", ErrUploads, s.maxUploads, UploadExpiry)
		case len(s.uploads) >= s.maxAllUploads:
			of, err = nil, fmt.Errorf("%w: all clients together have %d; next step: try again later; each upload without progress ends after %v", ErrUploads, s.maxAllUploads, UploadExpiry)
		default:
			of.uploads++
			s.uploads[r.id] = r
			s.mu.Unlock()
			return nil
		}
		s.mu.Unlock()
		if _, err := s.dropUploads(of, func(state UploadState) bool { return state.Blob != nil || s.h.Now().After(state.Expires) }); err != nil {
			return err
		}
	}
	return err
}

// dropUploads removes unused uploads of a client, or of all clients if it is nil, for which which returns true.
func (s *Store) dropUploads(of *client, which func(UploadState) bool) (dropped int, err error) {
	s.mu.Lock()
	var all []*Upload
	if of == nil || of.uploads > 0 {
		for _, r := range s.uploads {
			if of == nil || r.u.client == of {
				all = append(all, r)
			}
		}
	}
	s.mu.Unlock()
	for _, r := range all {
		if !which(r.State()) { // so an upload that stays never looks busy
			continue
		}
		if _, _, err := r.try(); err != nil {
			continue
		}
		if !which(r.State()) {
			r.release()
			continue
		}
		dropped++
		err = first(err, r.drop())
	}
	return dropped, err
}

// Upload returns a resumable upload of the client. It returns ErrNotFound if the upload does not exist, or has expired:
// an upload is kept for UploadExpiry after its last progress.
func (s *Store) Upload(_ context.Context, client, id string) (*Upload, error) {
	if _, err := s.has(client); err != nil {
		return nil, err
	}
	s.mu.Lock()
	r := s.uploads[id]
	s.mu.Unlock()
	if r == nil || r.u.name != client || s.h.Now().After(r.State().Expires) {
		return nil, fmt.Errorf("%w: there is no upload with this id; next step: begin another", ErrNotFound)
	}
	return r, nil
}

// State describes the upload.
func (r *Upload) State() UploadState {
	r.mu.Lock()
	defer r.mu.Unlock()
	state := r.state
	state.Busy = r.busy
	return state
}

// acquire makes the caller the only user of the upload, until release or drop. If another call uses the upload, acquire
// waits a short time and then returns ErrBusy.
func (r *Upload) acquire(ctx context.Context) error {
	timer := time.NewTimer(receivingPatience)
	defer timer.Stop()
	waitsForEnd := false
	for {
		ending, changed, err := r.try()
		if !errors.Is(err, ErrBusy) {
			return err
		}
		if ending && !waitsForEnd {
			waitsForEnd = true
			timer.Reset(endingPatience)
		}
		select {
		case <-changed:
		case <-timer.C:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// try is acquire without a wait. If it returns ErrBusy, ending reports whether the other call ends soon, and changed is
// closed when this changes.
func (r *Upload) try() (ending bool, changed <-chan struct{}, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.gone:
		return false, nil, fmt.Errorf("%w: the upload was removed", ErrNotFound)
	case r.busy:
		return r.ending, r.changed, fmt.Errorf("%w: another request is using it; next step: try again", ErrBusy)
	}
	r.busy, r.ending = true, false
	return false, nil, nil
}

// ends records that the caller, who has acquired the upload, needs nothing more from a client.
func (r *Upload) ends() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ending = true
	r.change()
}

func (r *Upload) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy, r.ending = false, false
	r.change()
}

// change wakes the waiting calls. The caller holds the mutex.
func (r *Upload) change() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// Describe stores a text of up to MaxMetadata bytes of UTF-8 with the upload, and replaces an earlier one. The text is
// durable when Describe returns.
func (r *Upload) Describe(ctx context.Context, metadata string) error {
	if len(metadata) > MaxMetadata || !utf8.ValidString(metadata) {
		return fmt.Errorf("%w: the metadata of an upload must have at most %d bytes of UTF-8", ErrTooLarge, MaxMetadata)
	}
	if err := r.acquire(ctx); err != nil {
		return err
	}
	defer r.release()
	r.ends()
	free, err := r.u.s.files.take(ctx, uploadFiles)
	if err != nil {
		return err
	}
	defer free()
	if r.State().Blob != nil {
		return fmt.Errorf("%w: the upload is finished", ErrOffset)
	}
	r.saved.Metadata = metadata // if this state cannot be written now, the next Append writes it
	return r.saveState()
}

// Append writes a stream to the end of the upload, which must be at offset; otherwise it returns ErrOffset. When it
// returns nil, all bytes are durable. If the stream or ctx ends it early, it returns their error, and State has the
// offset of the durable bytes. It also returns ErrTooLarge, ErrQuota and ErrNoSpace.
func (r *Upload) Append(ctx context.Context, offset int64, from io.Reader) (err error) {
	if err := r.acquire(ctx); err != nil {
		return err
	}
	defer r.release()
	state := r.State()
	if offset != state.Offset || state.Blob != nil {
		return fmt.Errorf("%w: it has %d bytes, and the append begins at %d", ErrOffset, state.Offset, offset)
	}
	u := r.u
	if err := u.s.room(); err != nil {
		return err
	}
	free, err := u.s.files.take(ctx, uploadFiles)
	if err != nil {
		return err
	}
	defer free()
	// The file may have more bytes than the state counts, after a failed append.
	if u.f, err = os.OpenFile(u.Path, os.O_WRONLY, 0); err != nil {
		return fmt.Errorf("append to upload: %w", err)
	}
	defer func() {
		err = errors.Join(err, u.f.Close())
		u.f = nil
	}()
	if err := u.f.Truncate(offset); err != nil {
		return fmt.Errorf("append to upload: %w", err)
	}
	if _, err := u.f.Seek(offset, io.SeekStart); err != nil {
		return fmt.Errorf("append to upload: %w", err)
	}
	r.saved.Blob = "" // of a Finish that has failed
	if r.unsure {
		if err := r.save(); err != nil {
			return errors.Join(err, r.revert())
		}
	}
	u.checkpoint = func() error {
		if u.size-r.saved.Offset < u.s.checkpointEvery {
			return nil
		}
		return r.save()
	}
	if state.Size >= 0 {
		from = &exactly{from, state.Size - offset}
	}
	err = u.append(ctx, from)
	r.ends()
	if err == nil || !u.broken && !errors.Is(err, ErrTooLarge) { // an append that was cut off has made progress, too
		if u.size == r.saved.Offset {
			return err
		}
		saveErr := r.save()
		if saveErr == nil {
			return err
		}
		err = errors.Join(err, saveErr)
	}
	return errors.Join(err, r.revert())
}

// exactly reads at most left bytes, and returns ErrTooLarge if there are more.
type exactly struct {
	from io.Reader
	left int64
}

func (e *exactly) Read(p []byte) (int, error) {
	if int64(len(p)) > e.left {
		p = p[:e.left+1]
	}
	n, err := e.from.Read(p)
	if int64(n) > e.left {
		return 0, fmt.Errorf("%w: the stream is longer than the rest of the upload", ErrTooLarge)
	}
	e.left -= int64(n)
	return n, err
}

// Finish stores the blob, as Put does. It may be called again. It returns ErrIncomplete if the upload has fewer bytes
// than its size. After ErrDigest the upload is removed.
func (r *Upload) Finish(ctx context.Context) (_ Info, err error) {
	if err := r.acquire(ctx); err != nil {
		return Info{}, err
	}
	defer r.release()
	r.ends()
	u, state := r.u, r.State()
	if state.Blob != nil {
		o, err := u.s.look(ctx, blobKey(u.name, *state.Blob))
		return o.plain(), err
	}
	if state.Size >= 0 && state.Offset != state.Size {
		return Info{}, fmt.Errorf("%w: it has %d of %d bytes", ErrIncomplete, state.Offset, state.Size)
	}
	free, err := u.s.files.take(ctx, uploadFiles)
	if err != nil {
		return Info{}, err
	}
	defer free()
	if err := ctx.Err(); err != nil {
		return Info{}, err
	}
	u.Info = u.digest()
	if err := checkDigest(r.saved.want(), u.Info); err != nil {
		return Info{}, errors.Join(err, r.drop())
	}
	if u.f, err = os.OpenFile(u.Path, os.O_WRONLY, 0); err != nil {
		return Info{}, fmt.Errorf("finish upload: %w", err)
	}
	defer func() {
		if u.f != nil {
			err = errors.Join(err, u.f.Close())
			u.f = nil
		}
	}()
	if err := u.f.Truncate(u.size); err != nil {
		return Info{}, fmt.Errorf("finish upload: %w", err)
	}
	r.saved.Blob = u.Info.Address.String()
	if err := r.save(); err != nil {
		return Info{}, err
	}
	// A client that has hung up requests the upload later. A copy to a bucket can take longer than its requests do.
	if err := u.s.commit(context.WithoutCancel(ctx), u.name, []*incoming{u}); err != nil {
		if u.Path == "" { // it had its name for a moment, and was removed
			err = errors.Join(err, r.drop())
		}
		return Info{}, err
	}
	a := u.Info.Address
	r.show(&a)
	return u.Info, nil
}

// Remove ends the upload and removes its bytes. If Finish has stored a blob, the blob stays.
func (r *Upload) Remove(ctx context.Context) error {
	if err := r.acquire(ctx); err != nil {
		return err
	}
	return r.drop()
}

// drop removes the upload. The caller has acquired it. The bytes are removed before the state, which is useless without
// them.
func (r *Upload) drop() error {
	s := r.u.s
	err := r.u.discard()
	if err == nil {
		err = ignoreMissing(s.h.Remove(s.statePath(r.id)))
	}
	r.mu.Lock()
	r.gone = true
	r.change()
	r.mu.Unlock()
	s.mu.Lock()
	if s.uploads[r.id] == r {
		delete(s.uploads, r.id)
		r.u.client.uploads--
	}
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("remove upload: %w", err)
	}
	return nil
}
