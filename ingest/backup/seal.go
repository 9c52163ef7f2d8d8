package backup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Seal completes a received backup: it adds the list of its blobs, unless that is nil, and the digests of the files that
// describe the backup. When it returns, the whole backup is durable.
func Seal(dir string, blobs *Blobs) error {
	names := []string{ManifestName}
	if blobs != nil {
		names = append(names, blobsName)
		if err := writeDurably(filepath.Join(dir, blobsName), blobs.encode()); err != nil {
			return err
		}
	}
	var sums bytes.Buffer
	for _, name := range names {
		sum, err := sumFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%s  %s\n", sum, name)
	}
	if err := writeDurably(filepath.Join(dir, sumName), sums.Bytes()); err != nil {
		return err
	}
	return syncDirs(dir)
}

// open reads the files that describe a sealed backup. blobs is nil if the backup was made without blobs.
func open(dir string) (m *Manifest, blobs *Blobs, err error) {
	sums, err := readSmall(filepath.Join(dir, sumName))
	if err != nil {
		return nil, nil, err
	}
	read := func(name string) ([]byte, error) {
		sum, err := sumFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: %s is missing", ErrDamaged, filepath.Join(dir, name))
		}
		if err != nil {
			return nil, err
		}
		line := sum + "  " + name + "\n"
		rest, ok := strings.CutPrefix(sums, line)
		if !ok {
			return nil, fmt.Errorf("%w: %s does not have the digest that %s has", ErrDamaged, filepath.Join(dir, name), sumName)
		}
		sums = rest
		return os.ReadFile(filepath.Join(dir, name))
	}
	text, err := read(ManifestName)
	if err != nil {
		return nil, nil, err
	}
	if m, err = decodeManifest(text); err != nil {
		return nil, nil, err
	}
	if sums == "" {
		return m, nil, nil
	}
	if text, err = read(blobsName); err != nil {
		return nil, nil, err
	}
	if sums != "" {
		return nil, nil, fmt.Errorf("%w: %s has more lines than files", ErrDamaged, filepath.Join(dir, sumName))
	}
	blobs, err = decodeBlobs(text)
	return m, blobs, err
}

// maxSums is more than the length of the two lines of backup.sha256.
const maxSums = 4096

func readSmall(path string) (string, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%w: %s is missing", ErrDamaged, path)
	case err != nil:
		return "", err
	case !info.Mode().IsRegular() || info.Size() > maxSums:
		return "", fmt.Errorf("%w: %s is not the file of a backup", ErrDamaged, path)
	}
	text, err := os.ReadFile(path)
	return string(text), err
}
