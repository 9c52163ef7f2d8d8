package blob

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/daybookq/daybook/internal/filelock"
)

const (
	// tempPrefix is the prefix of the files in uploads that Open removes.
	tempPrefix = "put-"

	layoutVersion = "1.0.0"
	layoutFile    = `{"imageLayoutVersion":"` + layoutVersion + `"}` + "\n"
	indexFile     = `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}` + "\n"
)

// OpenDir opens the store in a directory, and makes the directory if it is missing; its parent must exist. It removes
// uploads of a killed process, except for resumable ones. It makes the names of all stored files durable, because that
// process may have been killed before it did. It returns filelock.ErrLocked if another Store has the directory.
func OpenDir(dir string, o Options) (*Dir, error) {
	return openDir(dir, o, true)
}

func openDir(dir string, o Options, lock bool) (_ *Dir, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = MaxBlobBytes
	}
	if o.Grace == 0 {
		o.Grace = defaultGrace
	}
	if o.MaxFiles == 0 {
		o.MaxFiles = defaultFiles
	}
	trusted := o.Hooks.SyncFS != nil
	o.Hooks.fill()
	s := &Dir{dir: filepath.Clean(dir), o: o, h: o.Hooks, maxBatch: MaxBatch, maxUploads: MaxUploads, checkpointEvery: checkpointEvery,
		resumables: map[string]*resumable{}, busy: map[any]chan struct{}{}, unsynced: map[Address]bool{}, unsyncedAge: map[Address]bool{}, verified: newVerified(), files: newOpenFiles(o.MaxFiles)}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open blobs: %w", err), s.Close())
		}
	}()
	if err := s.makeDir(s.dir); err != nil {
		return nil, err
	}
	if lock {
		if s.lock, err = filelock.Open(s.dir); err != nil {
			return nil, err
		}
	}
	s.trustsSyncFS = trusted || canTrustSyncFS(s.dir)
	if o.ReserveBytes == 0 {
		_, total, err := s.h.Free(s.dir)
		if err != nil {
			return nil, err
		}
		s.o.ReserveBytes = int64(min(maxReserve, total/reserveShare))
	}
	if err := s.makeLayout(); err != nil {
		return nil, err
	}
	if o.remote != nil {
		s.remote = &remoteStore{Dir: s, remote: o.remote, unsure: map[Address]int64{}}
		s.count(o.remoteBytes)
	} else if err := s.countBlobs(); err != nil {
		return nil, err
	}
	if err := s.openResumables(); err != nil {
		return nil, err
	}
	return s, nil
}

// Close lets another Store open the directory. No other method may be running, or be called later. Verifications that
// continue without a reader end.
func (s *Dir) Close() error {
	s.verified.close()
	if s.lock == nil {
		return nil
	}
	lock := s.lock
	s.lock = nil
	return lock.Close()
}

// makeDir makes a directory and its name durable, unless the directory exists.
func (s *Dir) makeDir(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	look := os.Lstat
	if dir == s.dir {
		look = os.Stat // the operator may have linked it to another disk
	}
	info, err := look(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
	}
	// If an operator has made it, this process may have no permission to read the parent.
	if err := s.syncPath(filepath.Dir(dir)); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

// makeLayout makes the directories and files of the OCI image layout, and our own.
func (s *Dir) makeLayout() error {
	for _, dir := range []string{filepath.Dir(s.blobs()), s.blobs(), s.sha1s(), s.uploads()} {
		if err := s.makeDir(dir); err != nil {
			return err
		}
	}
	err := names(s.uploads(), func(name string) error {
		if !strings.HasPrefix(name, tempPrefix) {
			return nil
		}
		return s.h.Remove(filepath.Join(s.uploads(), name))
	})
	if err != nil {
		return err
	}
	var layout struct {
		Version string `json:"imageLayoutVersion"`
	}
	var index struct {
		Version int `json:"schemaVersion"`
	}
	for name, file := range map[string]struct {
		content string
		into    any
		known   func() bool
	}{
		"oci-layout": {layoutFile, &layout, func() bool { return layout.Version == layoutVersion }},
		"index.json": {indexFile, &index, func() bool { return index.Version == 2 }},
	} {
		path := filepath.Join(s.dir, name)
		text, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err = s.writeFile(path, file.content)
		case err == nil && (json.Unmarshal(text, file.into) != nil || !file.known()):
			err = fmt.Errorf("%s is not that of an OCI image layout of version %s; next step: if nothing else uses the directory, remove this file", path, layoutVersion)
		}
		if err != nil {
			return err
		}
	}
	for _, dir := range []string{s.dir, s.blobs(), s.sha1s()} {
		if err := s.syncPath(dir); err != nil {
			return err
		}
	}
	return nil
}

// countBlobs adds up the sizes of all blobs.
func (s *Dir) countBlobs() error {
	return names(s.blobs(), func(name string) error {
		a, ok := parseName(name)
		if !ok {
			return nil
		}
		info, there, err := s.stat(a)
		if there {
			s.count(info.Size())
		}
		return err
	})
}
