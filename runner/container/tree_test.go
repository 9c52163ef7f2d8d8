package container

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookq/daybook/runner/disk"
)

// TestTree: a directory with closed subdirectories, nested deeper than the maximum length of a path, can be measured up
// to the bound, and removed.
func TestTree(t *testing.T) {
	top := filepath.Join(t.TempDir(), "top")
	if err := os.MkdirAll(filepath.Join(top, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(top)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for name, text := range map[string]string{"a": "1", "sub/b": strings.Repeat("x", 100_000)} {
		if err := root.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(root.Symlink("/etc", "sub/link"), root.Symlink(".", "self"), root.Mkdir("closed", 0o700), root.Mkdir("closed/in", 0), root.Chmod("closed", 0)); err != nil {
		t.Fatal(err)
	}
	got, err := measure(t.Context(), root, 1<<30, 0)
	if err != nil || got.entries != 7 || got.bytes < 100_000 || got.bytes > 200_000 {
		t.Errorf("%+v %v", got, err)
	}
	if _, err := measure(t.Context(), root, 50_000, 0); !errors.Is(err, errTree) {
		t.Errorf("%v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := measure(ended, root, 1<<30, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}

	dir, err := root.OpenRoot(".")
	if err != nil {
		t.Fatal(err)
	}
	for range 400 { // a path of 8000 bytes
		name := strings.Repeat("d", 19)
		if err := dir.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
		next, err := dir.OpenRoot(name)
		if err != nil {
			t.Fatal(err)
		}
		dir.Close()
		dir = next
	}
	dir.Close()
	if _, err := measure(t.Context(), root, 1<<30, 0); !errors.Is(err, errTree) || !strings.Contains(err.Error(), "more than 100 levels") {
		t.Errorf("%v", err)
	}
	if err := disk.RemoveTree(top); err != nil {
		t.Error(err)
	}
}
