package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

const (
	// ManifestName is the file that describes a backup. It is the last file of a stream.
	ManifestName = "backup.json"
	// sumName is the file with the digests of the manifest and of the list of blobs, in the format of sha256sum. A backup
	// is complete if it has this file.
	sumName = "backup.sha256"
	// formatName and formatVersion begin each manifest. A program refuses unknown versions.
	formatName    = "daybook-backup"
	formatVersion = 1
	// maxManifestBytes is enough for a million files, which usually have some megabytes each.
	maxManifestBytes = 256 << 20
	// maxPath is longer than any path that pathForm allows for files of Pebble.
	maxPath = 128
)

// ErrDamaged: the backup is damaged, incomplete, or not a backup. Nothing was restored from it.
var ErrDamaged = errors.New("the backup is damaged")

// ErrVersion: this version of the program does not know the format of the backup.
var ErrVersion = errors.New("the backup has a format that this version of daybook does not know")

// Manifest describes a backup. Its JSON is backup.json.
type Manifest struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Server  string `json:"server"`   // version of the server that made it
	Journal string `json:"journal"`  // UUID of the journal
	Cursor  uint64 `json:"cursor"`   // seq of the last command that its store includes
	Last    uint64 `json:"last"`     // seq of the last record of its journal
	Level   int    `json:"level"`    // of the rules that the server follows; see job.Level
	TakenAt int64  `json:"taken_at"` // unix ms: the backup has everything that was acknowledged before
	Files   []File `json:"files"`
}

// File is a file of a backup.
type File struct {
	Path   string `json:"path"` // relative to the backup, with slashes
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // 64 hex digits
}

// pathForm is the form of all paths. It ensures that no path leads out of the directory of the backup.
var pathForm = regexp.MustCompile(`^(journal/identity|journal/[0-9]{20}/[0-9]{20}|store/[A-Za-z0-9_-][A-Za-z0-9._-]*)$`)

func checkPath(path string) error {
	if len(path) > maxPath || path == lockName || !pathForm.MatchString(path) {
		return fmt.Errorf("%w: a backup has no file %q", ErrDamaged, path)
	}
	return nil
}

// Bytes returns the sum of the sizes of all files.
func (m *Manifest) Bytes() (n int64) {
	for i := range m.Files {
		n += m.Files[i].Bytes
	}
	return n
}

func (m *Manifest) encode() ([]byte, error) {
	text, err := json.MarshalIndent(m, "", " ")
	return append(text, '\n'), err
}

// decodeManifest reads a manifest and checks its consistency.
func decodeManifest(text []byte) (*Manifest, error) {
	var head struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, ManifestName, err)
	}
	if head.Format != formatName {
		return nil, fmt.Errorf("%w: %s is not that of a backup: its format is %q", ErrDamaged, ManifestName, head.Format)
	}
	if head.Version != formatVersion {
		return nil, fmt.Errorf("%w: it has version %d, and this program knows version %d", ErrVersion, head.Version, formatVersion)
	}
	m := new(Manifest)
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(m); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, ManifestName, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("%w: %s has text after its end", ErrDamaged, ManifestName)
	}
	seen := make(map[string]bool, len(m.Files))
	for i := range m.Files {
		f := &m.Files[i]
		if err := checkPath(f.Path); err != nil {
			return nil, err
		}
		if sum, err := hex.DecodeString(f.SHA256); err != nil || len(sum) != sha256.Size || f.Bytes < 0 || seen[f.Path] {
			return nil, fmt.Errorf("%w: %s has a wrong entry for %s", ErrDamaged, ManifestName, f.Path)
		}
		seen[f.Path] = true
	}
	if m.Last < m.Cursor || !seen["journal/identity"] {
		return nil, fmt.Errorf("%w: %s has the cursor %d, the last seq %d, and %d files", ErrDamaged, ManifestName, m.Cursor, m.Last, len(m.Files))
	}
	return m, nil
}

// isStore reports whether the file belongs to the store.
func (f *File) isStore() bool { return strings.HasPrefix(f.Path, "store/") }
