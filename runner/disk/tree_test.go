package disk

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// gone removes a tree twice, and checks that it is gone and that the second call returns no error.
func gone(t *testing.T, path string) {
	t.Helper()
	for range 2 {
		testkit.Check(t, RemoveTree(path))
	}
	_, err := os.Lstat(path)
	testkit.Holds(t, errors.Is(err, os.ErrNotExist), path, "is there", err)
}

// TestDeepTree: a tree that is nested deeper than the longest path is removed.
func TestDeepTree(t *testing.T) {
	top := filepath.Join(t.TempDir(), "top")
	testkit.NoError(t, os.Mkdir(top, 0o700))
	dir := testkit.Must(os.OpenRoot(top))(t)
	for range 400 { // a path of 8000 bytes
		name := strings.Repeat("d", 19)
		testkit.NoError(t, errors.Join(dir.Mkdir(name, 0o700), dir.WriteFile("file", nil, 0)))
		next, err := dir.OpenRoot(name)
		testkit.NoError(t, errors.Join(err, dir.Close()))
		dir = next
	}
	testkit.NoError(t, dir.Close())
	gone(t, top)
}

// TestLinksAreNotFollowed: the targets of links keep their content and mode, even if the tree itself is a link.
func TestLinksAreNotFollowed(t *testing.T) {
	dir := t.TempDir()
	top, kept := filepath.Join(dir, "top"), filepath.Join(dir, "kept")
	testkit.NoError(t, errors.Join(os.MkdirAll(filepath.Join(top, "sub"), 0o700), os.Mkdir(kept, 0o755), os.WriteFile(filepath.Join(kept, "file"), []byte("x"), 0o600)))
	testkit.NoError(t, os.Chmod(kept, 0o555))
	for _, name := range []string{"link", "sub/link"} {
		if err := os.Symlink(kept, filepath.Join(top, name)); err != nil {
			t.Skip("this user cannot create links: ", err)
		}
	}
	testkit.NoError(t, errors.Join(os.Symlink(".", filepath.Join(top, "self")), os.Symlink(kept, filepath.Join(dir, "linked"))))
	gone(t, top)
	gone(t, filepath.Join(dir, "linked"))
	info := testkit.Must(os.Stat(kept))(t)
	text, err := os.ReadFile(filepath.Join(kept, "file"))
	testkit.Holds(t, err == nil && string(text) == "x" && info.Mode().Perm() == 0o555, text, err, "mode", info.Mode())
	testkit.NoError(t, os.Chmod(kept, 0o700))
	gone(t, filepath.Join(dir, "no directory", "no file"))
}
