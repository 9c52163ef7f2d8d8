package blob

import (
	"context"
	"encoding"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// maxStateBytes is more than any file with the state of an upload has. JSON writes a byte of metadata as up to six.
const maxStateBytes = 4096 + 6*MaxMetadata

// savedUpload is the content of the file with the state.
type savedUpload struct {
	Client     string    `json:"client,omitzero"`
	Size       int64     `json:"size"` // -1: not known
	WantSHA256 string    `json:"want_sha256,omitzero"`
	WantSHA1   string    `json:"want_sha1,omitzero"`
	Offset     int64     `json:"offset"`
	SHA256     []byte    `json:"sha256_state"` // of the hash after offset bytes, as package crypto/sha256 writes it
	SHA1       []byte    `json:"sha1_state"`
	Changed    time.Time `json:"changed"`
	Metadata   string    `json:"metadata,omitzero"`
	// Blob is set before the file gets its name as a blob. If it is set and the file is gone, the upload is finished.
	Blob string `json:"blob,omitzero"`
}

func (s *Store) dataPath(id string) string  { return filepath.Join(s.uploadsDir(), resumablePrefix+id) }
func (s *Store) statePath(id string) string { return s.dataPath(id) + stateSuffix }

// openUploads finds the resumable uploads of an earlier process. It removes an upload that is incomplete or cannot be
// read, and the client begins again.
func (s *Store) openUploads(ctx context.Context) error {
	var data, states []string
	err := names(s.uploadsDir(), func(name string) error {
		if id, ok := strings.CutPrefix(name, resumablePrefix); ok {
			if id, ok := strings.CutSuffix(id, stateSuffix); ok {
				states = append(states, id)
			} else {
				data = append(data, id)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = atOnce(ctx, s, states, func(ctx context.Context, _ int, id string) error {
		r, err := s.openUpload(ctx, id)
		if err != nil {
			return err
		}
		if r == nil || s.h.Now().After(r.state.Expires) {
			return s.h.Remove(s.statePath(id))
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		c := s.clientOf(r.saved.Client)
		c.uploads++
		r.u.client, s.uploads[id] = c, r
		s.count(c, r.u.charged)
		return nil
	})
	if err != nil {
		return err
	}
	for _, id := range data {
		if r := s.uploads[id]; r == nil || r.u.Path == "" {
			if err := s.h.Remove(s.dataPath(id)); err != nil {
				return err
			}
		}
	}
	return nil
}

// openUpload reads the state of an upload. It returns nil if the upload cannot be continued.
func (s *Store) openUpload(ctx context.Context, id string) (*Upload, error) {
	info, err := os.Lstat(s.statePath(id))
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxStateBytes {
		return nil, nil
	}
	text, err := os.ReadFile(s.statePath(id))
	if err != nil {
		return nil, fmt.Errorf("read state of upload: %w", err)
	}
	r := &Upload{id: id, changed: make(chan struct{})}
	if json.Unmarshal(text, &r.saved) != nil || r.saved.Size >= 0 && r.saved.Offset > r.saved.Size || r.saved.Client != "" && CheckClient(r.saved.Client) != nil {
		return nil, nil
	}
	r.u = s.newIncoming(r.saved.Client, nil)
	r.u.Path = s.dataPath(id)
	data, err := os.Lstat(r.u.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		ref, err := Parse(r.saved.Blob)
		if err != nil || ref.SHA256 == nil {
			return nil, nil
		}
		if _, err := s.look(ctx, blobKey(r.saved.Client, *ref.SHA256)); err != nil {
			return nil, ignoreNotFound(err)
		}
		r.u.Path = ""
		r.show(ref.SHA256)
		return r, nil
	case err != nil:
		return nil, err
	case !data.Mode().IsRegular() || r.saved.Offset < 0 || data.Size() < r.saved.Offset:
		return nil, nil
	}
	// The file may have more bytes, which no append has acknowledged and which may not be durable.
	if data.Size() > r.saved.Offset {
		if err := os.Truncate(r.u.Path, r.saved.Offset); err != nil {
			return nil, fmt.Errorf("continue upload %s: %w", filepath.Base(r.u.Path), err)
		}
	}
	r.u.size, r.u.charged = r.saved.Offset, r.saved.Offset
	if r.restoreHashes() != nil { // another version of Go may write the state of a hash in another way
		return nil, nil
	}
	r.show(nil)
	return r, nil
}

// save makes the bytes received so far durable, and then the state that counts them.
func (r *Upload) save() error {
	u := r.u
	if err := u.s.h.Sync(u.f); err != nil {
		u.broken = true // a second fsync could succeed without writing the bytes that this one has not written
		return noSpace("sync upload", err)
	}
	return r.saveState()
}

// saveState makes the state durable that counts the bytes received so far. These bytes are already durable.
func (r *Upload) saveState() error {
	u := r.u
	next := r.saved
	next.Offset = u.size
	next.Changed = u.s.h.Now()
	var err, err1 error
	next.SHA256, err = u.h256.(encoding.BinaryMarshaler).MarshalBinary()
	next.SHA1, err1 = u.h1.(encoding.BinaryMarshaler).MarshalBinary()
	if err := errors.Join(err, err1); err != nil {
		return fmt.Errorf("save upload: %w", err)
	}
	text, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("save upload: %w", err)
	}
	r.unsure = true
	if err := u.s.writeFile(u.s.statePath(r.id), string(text)); err != nil {
		return noSpace("save upload", err)
	}
	r.saved, r.unsure = next, false
	r.show(nil)
	return nil
}

// show makes the saved state visible.
func (r *Upload) show(blob *Address) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = UploadState{ID: r.id, Size: r.saved.Size, Offset: r.saved.Offset, Expires: r.saved.Changed.Add(UploadExpiry), Blob: blob, Metadata: r.saved.Metadata}
}

// revert returns to the saved state.
func (r *Upload) revert() error {
	u := r.u
	u.size, u.broken = r.saved.Offset, false
	u.looked, u.flushed = min(u.looked, u.size), min(u.flushed, u.size)
	u.s.mu.Lock()
	u.s.count(u.client, u.size-u.charged) // never more than before
	u.charged = u.size
	u.s.mu.Unlock()
	return r.restoreHashes()
}

func (r *Upload) restoreHashes() error {
	err := errors.Join(
		r.u.h256.(encoding.BinaryUnmarshaler).UnmarshalBinary(r.saved.SHA256),
		r.u.h1.(encoding.BinaryUnmarshaler).UnmarshalBinary(r.saved.SHA1))
	if err != nil {
		return fmt.Errorf("restore upload: %w", err)
	}
	return nil
}

// want is the expected digest.
func (u *savedUpload) want() (want Ref) {
	if ref, err := Parse(u.WantSHA256); err == nil {
		want.SHA256 = ref.SHA256
	}
	if ref, err := Parse(u.WantSHA1); err == nil {
		want.SHA1 = ref.SHA1
	}
	return want
}
