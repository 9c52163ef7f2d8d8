package container

import (
	"errors"
	"fmt"
	"strings"

	"github.com/daybookq/daybook/client/fileset"
	"github.com/daybookq/daybook/runner/disk"
)

// blockBytes is the disk space of the smallest file on most file systems. A directory takes the same.
const blockBytes = 4096

var errInput = errors.New("the input does not fit into the workspace")

// fits checks that a fileset fits. The error wraps errInput if the files exceed the limits of a workspace, and errFull if
// the disk lacks free space now. It wraps neither if the whole disk is too small.
func (e *Engine) fits(m *fileset.Manifest, dir string) error {
	bytes := int64(len(m.EmptyDirectories)) * blockBytes
	depth := 0
	for _, path := range m.EmptyDirectories {
		depth = max(depth, strings.Count(path, "/")+1)
	}
	for i := range m.Files {
		bytes += (m.Files[i].Size + blockBytes - 1) / blockBytes * blockBytes // no overflow: fileset bounds size and number
		depth = max(depth, strings.Count(m.Files[i].Path, "/"))
	}
	switch {
	case bytes > e.WorkspaceBytes:
		return fmt.Errorf("%w: its %d files take %d bytes on disk, and a workspace may have %d", errInput, len(m.Files), bytes, e.WorkspaceBytes)
	case depth > maxDepth:
		return fmt.Errorf("%w: it has directories in %d levels, and a workspace may have %d", errInput, depth, maxDepth)
	}
	if total, err := disk.Total(dir); err == nil && total-bytes < disk.ReserveBytes { // it would never have enough space
		return fmt.Errorf("the disk of the workspaces has %d bytes in all, the input takes %d, and %d must stay free", total, bytes, disk.ReserveBytes)
	}
	if free, err := disk.Free(dir); err == nil && free-bytes < disk.ReserveBytes {
		return fmt.Errorf("%w: %d bytes are free, the input takes %d, and %d must stay free", errFull, free, bytes, disk.ReserveBytes)
	}
	return nil
}
