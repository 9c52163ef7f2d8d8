package directory

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"

	"github.com/daybookq/daybook/client/fileset"
)

// ErrChanged: a file has changed since Scan has read it, or during that.
var ErrChanged = errors.New("the file has changed while it was pushed; push again")

// unchanged reads a file that must have the content that Scan has found. It returns the last byte only after the digest
// of the whole content has matched. So a reader that got as many bytes as the file has, got the right ones.
type unchanged struct {
	file    *os.File
	want    *fileset.File
	at      int64 // where the next Read begins
	hash    hash.Hash
	hashed  int64 // bytes in hash, from the beginning of the file
	changed error // wraps ErrChanged once a change was found
	// onChange is called when a change is found. It may be nil.
	onChange func(error)
}

// openUnchanged opens a file of a manifest.
func openUnchanged(root *os.Root, f *fileset.File) (*unchanged, error) {
	in, info, err := openRegular(root, f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrChanged, err)
	}
	if err != nil {
		return nil, err
	}
	u := &unchanged{file: in, want: f, hash: sha256.New()}
	if info.Size() != f.Size {
		return nil, errors.Join(u.differs("it has %d bytes, and had %d", info.Size(), f.Size), in.Close())
	}
	return u, nil
}

func (u *unchanged) differs(format string, args ...any) error {
	u.changed = fmt.Errorf("%w: %s", ErrChanged, fmt.Sprintf(format, args...))
	if u.onChange != nil {
		u.onChange(u.changed)
	}
	return u.changed
}

// Read implements io.Reader. After an error that wraps ErrChanged, it always returns that error.
func (u *unchanged) Read(p []byte) (int, error) {
	if u.changed != nil {
		return 0, u.changed
	}
	if err := u.catchUp(); err != nil {
		return 0, err
	}
	left := u.want.Size - u.at
	if left == 0 {
		if u.at == 0 {
			if err := u.verify(); err != nil {
				return 0, err
			}
		}
		return 0, io.EOF
	}
	n, err := u.file.ReadAt(p[:min(int64(len(p)), left)], u.at)
	if n > 0 {
		u.hash.Write(p[:n]) // never fails
		u.at += int64(n)
		u.hashed = u.at
		if u.at < u.want.Size {
			return n, nil
		}
		if err := u.verify(); err != nil {
			return 0, err
		}
		return n, nil
	}
	if err == io.EOF {
		err = u.differs("it has %d bytes, and had %d", u.at, u.want.Size)
	}
	return 0, err
}

// catchUp reads the bytes that Seek skipped, so that the digest covers the whole content.
func (u *unchanged) catchUp() error {
	if u.hashed == u.at {
		return nil
	}
	if u.hashed > u.at {
		u.hash.Reset()
		u.hashed = 0
	}
	n, err := io.Copy(u.hash, io.NewSectionReader(u.file, u.hashed, u.at-u.hashed))
	u.hashed += n
	if err == nil && u.hashed < u.at {
		err = u.differs("it has %d bytes, and had %d", u.hashed, u.want.Size)
	}
	return err
}

// verify compares the whole content with the result of Scan.
func (u *unchanged) verify() error {
	info, err := u.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() != u.want.Size {
		return u.differs("it has %d bytes, and had %d", info.Size(), u.want.Size)
	}
	if got := fileset.Address(u.hash.Sum(nil)); got != u.want.Blob {
		return u.differs("it has the digest %s, and had %s", got, u.want.Blob)
	}
	return nil
}

// Seek implements io.Seeker. The end is at the size that Scan has found.
func (u *unchanged) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += u.at
	case io.SeekEnd:
		offset += u.want.Size
	}
	if offset < 0 || offset > u.want.Size {
		return 0, fmt.Errorf("seek to %d in a file of %d bytes", offset, u.want.Size)
	}
	u.at = offset
	return offset, nil
}

func (u *unchanged) Close() error { return u.file.Close() }
