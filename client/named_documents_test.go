package client_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/fileset"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
)

// TestIfVersion changes handlers and filesets of a real server only if they have a version, and reads who changed them.
func TestIfVersion(t *testing.T) {
	ctx := t.Context()
	url := daybooktest.Start(t).URL
	c := client.New(url, client.Options{By: "anna"})
	for _, by := range []string{strings.Repeat("é", 65), "a\nb", "\xff"} {
		err := client.New(url, client.Options{By: by}).DeleteHandler(ctx, "", "x")
		testkit.Holds(t, errors.Is(err, client.ErrBadRequest), by, err)
	}
	dir := t.TempDir()
	put := map[string]func(n int, only ...client.IfVersion) error{
		"handler": func(n int, only ...client.IfVersion) error {
			_, err := c.PutHandler(ctx, "", "x", handler.Document{Kind: handler.Exec, Program: fmt.Sprint("p", n)}, only...)
			return err
		},
		"archive": func(n int, only ...client.IfVersion) error {
			var archive bytes.Buffer
			w := tar.NewWriter(&archive)
			if err := errors.Join(w.WriteHeader(&tar.Header{Name: fmt.Sprint(n), Typeflag: tar.TypeDir, Mode: 0o755}), w.Close()); err != nil {
				return err
			}
			_, err := c.Filesets("").Put(ctx, "archive", io.MultiReader(&archive), only...)
			return err
		},
		"manifest": func(n int, only ...client.IfVersion) error {
			_, err := c.Filesets("").PutManifest(ctx, "manifest", &fileset.Manifest{EmptyDirectories: []string{fmt.Sprint(n)}}, only...)
			return err
		},
		"directory": func(n int, only ...client.IfVersion) error {
			if err := os.WriteFile(filepath.Join(dir, "file"), []byte(fmt.Sprint(n)), 0o600); err != nil {
				return err
			}
			_, _, err := c.Filesets("").Push(ctx, "directory", dir, nil, only...)
			return err
		},
	}
	for name, put := range put {
		remove := func(only ...client.IfVersion) error { return c.Filesets("").Delete(ctx, name, only...) }
		history := func() (list []string, err error) {
			all, err := c.Filesets("").History(ctx, name)
			for _, f := range all {
				list = append(list, fmt.Sprintln(f.Version, f.Deleted, f.Gone, f.By))
			}
			return list, err
		}
		if name == "handler" {
			remove = func(only ...client.IfVersion) error { return c.DeleteHandler(ctx, "", "x", only...) }
			history = func() (list []string, err error) {
				all, err := c.HandlerHistory(ctx, "", "x")
				for _, h := range all {
					list = append(list, fmt.Sprintln(h.Version, h.Deleted, h.Gone, h.By))
				}
				return list, err
			}
		}
		for i, test := range []struct {
			err, want error
		}{
			{put(1, 1), client.ErrVersionDiffers},
			{put(1, 0), nil},
			{put(1, 0), client.ErrVersionDiffers},
			{put(2, 0), client.ErrVersionDiffers},
			{put(2, 2), client.ErrVersionDiffers},
			{put(2, 1), nil},
			{put(2, 1), nil}, // as a repeat
			{remove(1), client.ErrVersionDiffers},
			{remove(0), client.ErrBadRequest},
			{remove(-1), client.ErrBadRequest},
			{put(2, -1), client.ErrBadRequest},
			{remove(2), nil},
			{remove(2), client.ErrNotFound},
			{put(2, 3), client.ErrVersionDiffers},
			{put(2), nil},
		} {
			testkit.Holds(t, errors.Is(test.err, test.want), name, "change", i, test.err, "want", test.want)
		}
		if list, err := history(); err != nil || !slices.Equal(list, []string{"4 false false anna\n", "3 true false anna\n", "2 false true anna\n", "1 false true anna\n"}) {
			t.Errorf("%s: %q, %v", name, list, err)
		}
	}
	h := testkit.Must(c.Handler(ctx, "", "x", 4))(t)
	testkit.Equal(t, h.Document.Program, "p2", h)
	testkit.Fails(c.Handler(ctx, "", "x", 2))(t, client.ErrNotFound)
}
