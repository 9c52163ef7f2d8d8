package checkpoint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/filelock"
	"github.com/daybookq/daybook/internal/testkit"
)

// notes returns the notes of uploads below a directory for the state of programs.
func notes(t *testing.T, state string) []string {
	t.Helper()
	return testkit.Must(filepath.Glob(filepath.Join(state, "daybook", "uploads", "*")))(t)
}

// TestUploadNotes: a note is about one state of a file, and a damaged, old or foreign one does no harm.
func TestUploadNotes(t *testing.T) {
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	note := Upload{Server: "http://x", Size: 5, Modified: 7}
	open := func(n Upload) (*Note, string) {
		t.Helper()
		f := testkit.Must(OpenUpload(&n, "file"))(t)
		return f, n.Upload
	}
	f, upload := open(note)
	testkit.Holds(t, upload == "" && filepath.IsAbs(f.note.File), upload, "of", f.note.File)
	testkit.NoError(t, f.Begun("/uploads/u1"))
	n := note
	testkit.Fails(OpenUpload(&n, "file"))(t, filelock.ErrLocked) // a second one
	f.Close()
	f, upload = open(note)
	testkit.Equal(t, upload, "/uploads/u1", "the upload")
	f.Close()
	changed := note
	changed.Modified++
	f, upload = open(changed)
	testkit.Equal(t, upload, "", "the upload of another state of the file")
	f.Close()
	testkit.Equal(t, len(notes(t, state)), 0)
	for _, text := range []string{"", "{", `[]`, strings.Repeat("x", 2*maxNoteBytes)} {
		f, _ := open(note)
		testkit.NoError(t, os.WriteFile(f.f.Name(), []byte(text), 0o600))
		f.note.Upload = "kept"
		f.Close()
		f, upload := open(note)
		testkit.Equal(t, upload, "", "the upload of", text)
		f.Close()
	}
	f, _ = open(note)
	testkit.NoError(t, f.Begun("/uploads/u2"))
	f.Close()
	old := time.Now().Add(-noteAge - time.Hour)
	testkit.NoError(t, os.Chtimes(notes(t, state)[0], old, old))
	f, upload = open(note)
	testkit.Equal(t, upload, "", "an old note")
	f.Close()
	testkit.NoError(t, os.WriteFile(filepath.Join(state, "no"), nil, 0o600))
	t.Setenv("XDG_STATE_HOME", filepath.Join(state, "no"))
	testkit.Fails(OpenUpload(&note, "file"))(t)
}

func FuzzUploadNote(f *testing.F) {
	f.Setenv("XDG_STATE_HOME", f.TempDir())
	f.Add(`{"server":"http://x","file":"/file","size":5,"modified":7,"upload":"/uploads/u1"}`)
	f.Fuzz(func(t *testing.T, text string) {
		n := Upload{Server: "http://x", Size: 5, Modified: 7}
		file := testkit.Must(OpenUpload(&n, "/file"))(t)
		testkit.NoError(t, os.WriteFile(file.f.Name(), []byte(text), 0o600))
		file.note.Upload = "kept"
		file.Close()
		file = testkit.Must(OpenUpload(&n, "/file"))(t)
		testkit.Holds(t, n.Upload == "" || n.Size == 5 && n.Modified == 7 && n.File == "/file", text, "is about", n)
		file.Remove()
		file.Close()
	})
}
