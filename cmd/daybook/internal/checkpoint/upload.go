package checkpoint

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/daybookq/daybook/internal/filelock"
)

const (
	// noteAge is the age at which a note is removed. The server keeps an upload for a day after its last progress.
	noteAge = 7 * 24 * time.Hour
	// maxNoteBytes is more than any note has.
	maxNoteBytes = 16 << 10
	// maxNotes bounds how many notes are checked for their age.
	maxNotes = 10_000
)

// Upload records the upload of a file in progress, so that a later command continues it. Each upload has a file in
// the directory for the state of programs.
type Upload struct {
	Server   string `json:"server"`
	Client   string `json:"client,omitzero"`
	File     string `json:"file"` // its absolute path
	Size     int64  `json:"size"`
	Modified int64  `json:"modified"` // unix ns
	Upload   string `json:"upload"`   // its path at the server
}

// Note is the open file of a note. A lock, which ends with the process, keeps other processes out. Remove and Close
// do nothing if it is nil.
type Note struct {
	f    *os.File
	note Upload
}

// notesDir is the directory of the notes.
func notesDir() (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // as the XDG specification requires
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "daybook", "uploads"), nil
}

// OpenUpload opens the note of a file, and sets n.Upload if the note is about the same state of the file. It
// returns filelock.ErrLocked if another process is uploading this file.
func OpenUpload(n *Upload, file string) (_ *Note, err error) {
	dir, err := notesDir()
	if err != nil {
		return nil, err
	}
	if n.File, err = filepath.Abs(file); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	removeOldNotes(dir)
	name := fmt.Sprintf("%x.json", sha256.Sum256([]byte(n.Server+"\x00"+n.Client+"\x00"+n.File)))
	f, err := filelock.Create(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	if err := filelock.Lock(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxNoteBytes))
	if err != nil {
		return nil, errors.Join(err, filelock.Close(f))
	}
	var old Upload
	if json.Unmarshal(text, &old) == nil { // a process may have been killed while it wrote
		n.Upload, old.Upload = old.Upload, ""
		if wanted := *n; old.sameAs(wanted) {
			return &Note{f, *n}, nil
		}
	}
	n.Upload = ""
	return &Note{f, *n}, nil
}

// sameAs compares all fields but the upload.
func (n Upload) sameAs(other Upload) bool {
	n.Upload, other.Upload = "", ""
	return n == other
}

// Begun records the path of an upload.
func (n *Note) Begun(path string) error {
	n.note.Upload = path
	text, err := json.Marshal(n.note)
	if err != nil {
		return err
	}
	if err := n.f.Truncate(0); err != nil {
		return err
	}
	_, err = n.f.WriteAt(text, 0)
	return err
}

// Remove removes the note, since the upload is finished. If that fails, a later command finds that the server has all
// bytes.
func (n *Note) Remove() {
	if n != nil {
		_ = os.Remove(n.f.Name()) // see above
	}
}

// Close lets other processes use the note.
func (n *Note) Close() {
	if n == nil {
		return
	}
	if n.note.Upload == "" { // none has begun
		n.Remove()
	}
	_ = filelock.Close(n.f) // its content is needed only later
}

// removeOldNotes removes the notes of uploads that the server has removed. It ignores errors.
func removeOldNotes(dir string) {
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer d.Close() // the directory was only read
	names, _ := d.Readdirnames(maxNotes)
	for _, name := range names {
		path := filepath.Join(dir, name)
		if info, err := os.Lstat(path); err == nil && strings.HasSuffix(name, ".json") && info.Mode().IsRegular() && time.Since(info.ModTime()) > noteAge {
			_ = os.Remove(path) // see above
		}
	}
}
