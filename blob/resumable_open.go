package blob

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
)

// maxStateBytes is more than any file with the state of an upload has. JSON writes a byte of metadata as up to six.
const maxStateBytes = 4096 + 6*MaxMetadata

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
	if err := os.Truncate(r.u.Path, r.saved.Offset); err != nil {
		return nil, fmt.Errorf("continue upload %s: %w", filepath.Base(r.u.Path), err)
	}
	r.u.size, r.u.charged = r.saved.Offset, r.saved.Offset
	if r.restoreHashes() != nil { // another version of Go may write the state of a hash in another way
		return nil, nil
	}
	r.show(nil)
	return r, nil
}
