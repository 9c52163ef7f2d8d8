package backup

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/daybookq/daybook/ingest"
)

// MediaType is the media type of a stream.
const MediaType = "application/x-tar"

// Write writes the stream of a backup: a tar with the files of a snapshot, and the manifest as the last file. If the
// stream ends earlier, Receive fails.
func Write(ctx context.Context, w io.Writer, s *ingest.Snapshot, server string) (*Manifest, error) {
	m := &Manifest{
		Format: formatName, Version: formatVersion, Server: server,
		Journal: s.Journal, Cursor: s.Cursor, Last: s.Last, Level: s.Level, TakenAt: s.TakenAt, Files: []File{},
	}
	out := tar.NewWriter(w)
	modified := time.UnixMilli(s.TakenAt)
	err := s.Files(ctx, func(f *ingest.SnapshotFile) error {
		if err := checkPath(f.Path); err != nil { // Receive would refuse the path
			return err
		}
		if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.Path, Size: f.Size, Mode: 0o640, ModTime: modified}); err != nil {
			return err
		}
		h := sha256.New()
		n, err := io.Copy(io.MultiWriter(out, h), f)
		if err != nil {
			return fmt.Errorf("send %s: %w", f.Path, err)
		}
		if n != f.Size {
			return fmt.Errorf("send %s: it has %d bytes, and not %d", f.Path, n, f.Size)
		}
		m.Files = append(m.Files, File{Path: f.Path, Bytes: n, SHA256: hex.EncodeToString(h.Sum(nil))})
		return nil
	})
	if err != nil {
		return nil, err
	}
	text, err := m.encode()
	if err != nil {
		return nil, err
	}
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: ManifestName, Size: int64(len(text)), Mode: 0o640, ModTime: modified}); err != nil {
		return nil, err
	}
	if _, err := out.Write(text); err != nil {
		return nil, err
	}
	return m, out.Close()
}

// Receive writes the files of a stream into the empty directory dir. It makes the files durable, but not their names, and
// compares their digests with the manifest. Seal completes the backup. base is the directory of an earlier backup, or "".
// If a file has the same bytes there, Receive keeps a hard link to it.
//
// The error is ErrDamaged unless the stream is a complete backup.
func Receive(dir string, r io.Reader, base string) (*Manifest, error) {
	w := receiver{dir: dir, base: base, sums: map[string]File{}}
	in := tar.NewReader(r)
	var manifest []byte
	for {
		header, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, streamError(err)
		}
		if manifest != nil || header.Typeflag != tar.TypeReg {
			return nil, fmt.Errorf("%w: the stream has %q where it may not", ErrDamaged, header.Name)
		}
		if header.Name == ManifestName {
			if header.Size > maxManifestBytes {
				return nil, fmt.Errorf("%w: %s has %d bytes", ErrDamaged, ManifestName, header.Size)
			}
			if manifest, err = io.ReadAll(in); err != nil {
				return nil, streamError(err)
			}
			continue
		}
		if err := w.file(header.Name, header.Size, in); err != nil {
			return nil, err
		}
	}
	if manifest == nil {
		return nil, fmt.Errorf("%w: the stream has no %s at its end", ErrDamaged, ManifestName)
	}
	if _, err := io.Copy(io.Discard, r); err != nil { // only the end of the answer proves that the stream is complete
		return nil, streamError(err)
	}
	m, err := decodeManifest(manifest)
	if err != nil {
		return nil, err
	}
	if len(m.Files) != len(w.sums) {
		return nil, fmt.Errorf("%w: the stream has %d files, and its manifest %d", ErrDamaged, len(w.sums), len(m.Files))
	}
	for _, f := range m.Files {
		if w.sums[f.Path] != f {
			return nil, fmt.Errorf("%w: file %s did not arrive as its manifest describes it", ErrDamaged, f.Path)
		}
	}
	if err := writeDurably(filepath.Join(dir, ManifestName), manifest); err != nil {
		return nil, err
	}
	return m, nil
}

// streamError returns the error for a stream that ended early, or that is not a tar. An error of the stream's reader,
// such as a lost connection, does not count as damage.
func streamError(err error) error {
	if errors.Is(err, tar.ErrHeader) || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%w: the stream ended before its end: %w", ErrDamaged, err)
	}
	return fmt.Errorf("read the stream of the backup: %w", err)
}

// receiver writes the files of a stream.
type receiver struct {
	dir, base string
	sums      map[string]File
}

func (w *receiver) file(path string, size int64, r io.Reader) error {
	if err := checkPath(path); err != nil {
		return err
	}
	if _, twice := w.sums[path]; twice {
		return fmt.Errorf("%w: the stream has %s twice", ErrDamaged, path)
	}
	to := filepath.Join(w.dir, filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
		return err
	}
	sum, err := writeFile(to, r, size)
	if err != nil {
		return err
	}
	f := File{Path: path, Bytes: size, SHA256: sum}
	w.sums[path] = f
	if w.base == "" || !f.isStore() {
		return nil
	}
	earlier := filepath.Join(w.base, filepath.FromSlash(path))
	if !sameFile(earlier, &f) {
		return nil
	}
	link := to + ".link"
	if err := os.Link(earlier, link); err != nil {
		return nil // links are unsupported or exhausted on this file system: keep the copy
	}
	return os.Rename(link, to)
}

// sameFile reports whether a file exists and matches the digest of f.
func sameFile(path string, f *File) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() != f.Bytes {
		return false
	}
	sum, err := sumFile(path)
	return err == nil && sum == f.SHA256
}
