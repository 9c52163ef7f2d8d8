package container

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/runner/disk"
)

// TestTree: a directory with closed subdirectories, nested deeper than the maximum length of a path, can be measured up
// to the bound, and removed.
func TestTree(t *testing.T) {
	top := filepath.Join(t.TempDir(), "top")
	testkit.NoError(t, os.MkdirAll(filepath.Join(top, "sub"), 0o700))
	root := testkit.Must(os.OpenRoot(top))(t)
	defer root.Close()
	for name, text := range map[string]string{"a": "1", "sub/b": strings.Repeat("x", 100_000)} {
		testkit.NoError(t, root.WriteFile(name, []byte(text), 0o600))
	}
	testkit.NoError(t, errors.Join(root.Symlink("/etc", "sub/link"), root.Symlink(".", "self"), root.Mkdir("closed", 0o700), root.Mkdir("closed/in", 0), root.Chmod("closed", 0)))
	got, err := measure(t.Context(), root, 1<<30, 0)
	testkit.Holds(t, err == nil && got.entries == 7 && got.bytes >= 100_000 && got.bytes <= 200_000, got, err)
	testkit.Fails(measure(t.Context(), root, 50_000, 0))(t, errTree)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	testkit.Fails(measure(ended, root, 1<<30, 0))(t, context.Canceled)

	dir := testkit.Must(root.OpenRoot("."))(t)
	for range 400 { // a path of 8000 bytes
		name := strings.Repeat("d", 19)
		testkit.NoError(t, dir.Mkdir(name, 0o700))
		next := testkit.Must(dir.OpenRoot(name))(t)
		dir.Close()
		dir = next
	}
	dir.Close()
	testkit.Fails(measure(t.Context(), root, 1<<30, 0))(t, errTree, "more than 100 levels")
	testkit.Check(t, disk.RemoveTree(top))
}
