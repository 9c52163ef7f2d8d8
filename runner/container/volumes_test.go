package container

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/client"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/disk"
)

// TestVolumesOf: volumes in the workspace become directories of it, other volumes are in memory, and invalid paths are
// refused.
func TestVolumesOf(t *testing.T) {
	of := func(paths ...string) *image.InspectResponse {
		volumes := map[string]struct{}{}
		for _, path := range paths {
			volumes[path] = struct{}{}
		}
		text, err := json.Marshal(map[string]any{"Config": map[string]any{"Volumes": volumes}})
		img := &image.InspectResponse{}
		testkit.NoError(t, errors.Join(err, json.Unmarshal(text, img)))
		return img
	}
	for _, c := range []struct {
		paths          []string
		inside, memory string
	}{
		{nil, "[]", "[]"},
		{[]string{"/data", "/tmp", "/tmp/x", "/workspaces"}, "[]", "[/data /tmp/x /workspaces]"},
		{[]string{"/workspace", "/workspace/", "//workspace//", "/tmp/", "/x/../tmp"}, "[]", "[]"},
		{[]string{"/workspace/a", "/workspace/a/", "/x/../workspace/a/b"}, "[a a/b]", "[]"},
		{[]string{"/data", "/data/", "/x/../data"}, "[]", "[/data]"},
	} {
		v, err := volumesOf(of(c.paths...), nil)
		testkit.Holds(t, err == nil && fmt.Sprint(v.inside) == c.inside && fmt.Sprint(v.memory) == c.memory, c.paths, v, err)
	}
	for _, path := range []string{"", "/", "/..", "data", "./x", "/proc", "/proc/x", "/sys/fs", "/dev/shm", "/x/../dev", "/a,b", "/a:b", "/a\x00b", "/workspace/" + strings.Repeat("d/", 200)} {
		v, err := volumesOf(of(path), nil)
		testkit.Holds(t, errors.Is(err, errVolume), path, v, err)
	}
	var many []string
	for i := range maxVolumes {
		many = append(many, fmt.Sprint("/d", i))
	}
	testkit.Holds(t, len(testkit.Must(volumesOf(of(many...), nil))(t).memory) == maxVolumes)
	testkit.Fails(volumesOf(of(append(many, "/more")...), nil))(t, errVolume)
}

// TestVolumes: an image's volume in the workspace is a directory of the workspace: it contains the input, its files can
// be output, its size counts, and nothing is left after the run.
func TestVolumes(t *testing.T) {
	withEngines(t, func(t *testing.T, e *realEngine) {
		r := newRig(t, e, func(s *Settings) { s.WorkspaceBytes = 8 << 20 })
		r.filesets["in"] = map[string]string{"kept/a.dat": "one", "in/deep/b.dat": "two"}
		config := strings.Replace(guest("upper"), "guest:1", "guest:volumes", 1)
		end := r.run(t.Context(), config, `"Input":{"Name":"in","Patterns":["**/*.dat"]},"Output":{"Name":"out","Patterns":["out/*/*","out/*/*/*"]}`, handler.Options{})
		r.want(end, "ok", "")
		want := map[string]string{"out/kept/a.dat": "ONE", "out/in/deep/b.dat": "TWO"}
		testkit.Holds(t, maps.Equal(r.filesets["out"], want), "the output is", r.filesets["out"], "want", want)
		end = r.run(t.Context(), config+`,"WorkingDir":"kept"`, `"Input":{"Name":"in","Patterns":["**/*.dat"]},"Output":{"Name":"out","Patterns":["kept/*/*"]}`, handler.Options{})
		r.want(end, "ok", "")
		got := slices.Sorted(maps.Keys(r.filesets["out"]))
		testkit.Equal(t, fmt.Sprint(got), "[kept/out/a.dat]", "the output", got)
		end = r.run(t.Context(), strings.Replace(guest("fill", "16777216"), "guest:1", "guest:volumes", 1)+`,"WorkingDir":"kept"`, "", handler.Options{})
		r.want(end, "failed", "its files have more than 8388608 bytes")
		r.filesets["file"] = map[string]string{"kept": "a file", "x.dat": "x"}
		end = r.run(t.Context(), config, `"Input":{"Name":"file","Patterns":["kept","*.dat"]}`, handler.Options{})
		r.want(end, "failed", "create the directory kept of the image's volume")
		list, err := r.docker.VolumeList(t.Context(), client.VolumeListOptions{})
		testkit.Holds(t, err == nil && len(list.Items) == 0, "the engine has the volumes", list.Items, err)
	})
}

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
