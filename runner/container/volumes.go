package container

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/api/types/mount"

	"github.com/daybookq/daybook/internal/containerjob"
)

// maxVolumes bounds the volumes of a container.
const maxVolumes = 16

var errVolume = errors.New("the volumes of the container are refused")

// volumes are the volumes of an image and of a job. An engine would create a directory for each, outside of the workspace
// and without a size limit. The runner replaces them.
type volumes struct {
	inside []string // paths in the workspace, relative to it: become directories of the workspace
	memory []string // other paths: become file systems in memory
}

// volumesOf returns the volumes of an image and of a job. The error wraps errVolume.
func volumesOf(img *image.InspectResponse, added map[string]struct{}) (*volumes, error) {
	v := &volumes{}
	all := map[string]struct{}{}
	maps.Copy(all, added)
	if img.Config != nil {
		maps.Copy(all, img.Config.Volumes)
	}
	if n := len(all); n > maxVolumes {
		return nil, fmt.Errorf("%w: it has %d; the maximum is %d", errVolume, n, maxVolumes)
	}
	for _, named := range slices.Sorted(maps.Keys(all)) {
		dir := path.Clean(named)
		top, _, _ := strings.Cut(strings.TrimPrefix(dir, "/"), "/")
		switch {
		case !path.IsAbs(named) || dir == "/" || len(dir) > containerjob.MaxTextBytes || strings.ContainsAny(dir, "\x00,:"):
			return nil, fmt.Errorf("%w: %q is no directory that it can have", errVolume, shortened(named))
		case top == "proc" || top == "sys" || top == "dev":
			return nil, fmt.Errorf("%w: %q is a directory of the system", errVolume, shortened(named))
		case dir == containerjob.MountPoint || dir == "/tmp" || slices.Contains(v.memory, dir):
			continue // exists already
		}
		inside, found := strings.CutPrefix(dir, containerjob.MountPoint+"/")
		switch {
		case !found:
			v.memory = append(v.memory, dir)
		case strings.Count(inside, "/") >= maxDepth:
			return nil, fmt.Errorf("%w: %q is in too many directories", errVolume, shortened(named))
		case !slices.Contains(v.inside, inside):
			v.inside = append(v.inside, inside)
		}
	}
	return v, nil
}

// mounts returns mounts for the volumes in a workspace. Each mounts a directory of the workspace at its own place, so
// that the engine does not create a volume there.
func (v *volumes) mounts(files string) []mount.Mount {
	var list []mount.Mount
	for _, dir := range v.inside {
		list = append(list, bind(files+"/"+dir, containerjob.MountPoint+"/"+dir))
	}
	return list
}

// bind returns a bind mount of a directory of the machine.
func bind(from, to string) mount.Mount {
	return mount.Mount{Type: mount.TypeBind, Source: from, Target: to, BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate}}
}
