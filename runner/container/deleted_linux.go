package container

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/daybookq/daybook/internal/containerjob"
)

// deletedFiles looks for files of a workspace that have no name any more, because processes of a container keep them open
// or mapped. They take room on the disk that no walk of the workspace finds.
type deletedFiles struct {
	first  int    // the first process of the container
	pids   string // its PID namespace
	device uint64 // of the workspace
}

var errHidden = errors.New("the processes of the container cannot be looked at")

// newDeletedFiles returns the deleted files of a container. The error is errHidden if its processes are not visible: the
// engine runs elsewhere, or the runner has no right to look at them.
func newDeletedFiles(first int, workspace string) (*deletedFiles, error) {
	own, err := os.Stat(workspace)
	if err != nil {
		return nil, err
	}
	if first <= 0 {
		return nil, fmt.Errorf("%w: the engine does not name one", errHidden)
	}
	// The number may be that of another process, if the engine has other process ids than the runner.
	seen, err := os.Stat(fmt.Sprintf("/proc/%d/root%s", first, containerjob.MountPoint))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errHidden, err)
	}
	if !os.SameFile(own, seen) {
		return nil, fmt.Errorf("%w: the process %d has another workspace", errHidden, first)
	}
	pids, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", first))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errHidden, err)
	}
	var s unix.Stat_t
	if err := unix.Stat(workspace, &s); err != nil {
		return nil, err
	}
	return &deletedFiles{first, pids, uint64(s.Dev)}, nil //nolint:unconvert // its type differs between architectures
}

// bytes returns what the files take on the disk. It stops counting above so many bytes.
func (d *deletedFiles) bytes(ctx context.Context, most int64) (int64, error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return 0, err
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return 0, err
	}
	count := &deletedCount{device: d.device, files: map[uint64]int64{}}
	below := map[string]bool{d.pids: true} // PID namespaces, and whether they are the container's or below it
	for _, name := range names {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if _, err := strconv.Atoi(name); err != nil {
			continue
		}
		pids, err := os.Readlink("/proc/" + name + "/ns/pid")
		if err != nil {
			continue // of somebody else, or it has ended
		}
		inside, known := below[pids]
		if !known {
			inside = d.below("/proc/" + name + "/ns/pid")
			below[pids] = inside
		}
		if !inside {
			continue
		}
		count.open("/proc/" + name)
		count.mapped("/proc/" + name)
		if count.sum > most {
			break
		}
	}
	return count.sum, nil
}

// maxNested is how many PID namespaces Linux has in one another.
const maxNested = 32

// below reports whether a PID namespace is in that of the container. A container can create some if nothing refuses it.
func (d *deletedFiles) below(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	ns := int(f.Fd())
	defer func() { f.Close() }()
	for range maxNested {
		parent, err := unix.IoctlRetInt(ns, unix.NS_GET_PARENT)
		if err != nil {
			return false // the runner's own namespace has no parent that it may see
		}
		f.Close()
		f = os.NewFile(uintptr(parent), "namespace")
		ns = parent
		if name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(ns)); err == nil && name == d.pids {
			return true
		}
	}
	return false
}

// deletedCount counts each file once. Processes that end in the meantime are no error.
type deletedCount struct {
	device uint64
	files  map[uint64]int64 // by inode
	sum    int64
}

func (c *deletedCount) add(inode uint64, bytes int64) {
	if more := bytes - c.files[inode]; more > 0 {
		c.files[inode] = bytes
		c.sum += more
	}
}

// look counts a file, which a name in /proc leads to.
func (c *deletedCount) look(path string) error {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return err
	}
	if s.Nlink == 0 && s.Mode&unix.S_IFMT == unix.S_IFREG && uint64(s.Dev) == c.device { //nolint:unconvert // as above
		c.add(s.Ino, s.Blocks*512)
	}
	return nil
}

// open counts the open files of a process.
func (c *deletedCount) open(process string) {
	dir, err := os.Open(process + "/fd")
	if err != nil {
		return
	}
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(atOnce)
		for _, name := range names {
			c.look(process + "/fd/" + name) // it may be closed by now
		}
		if err != nil || len(names) == 0 {
			return
		}
	}
}

// mapped counts the mapped files of a process, which may be closed.
func (c *deletedCount) mapped(process string) {
	f, err := os.Open(process + "/maps")
	if err != nil {
		return
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line, deleted := strings.CutSuffix(lines.Text(), " (deleted)")
		if !deleted {
			continue
		}
		fields := strings.Fields(line) // from-to rights offset device inode path
		if len(fields) < 5 {
			continue
		}
		err := c.look(process + "/map_files/" + fields[0])
		if !errors.Is(err, fs.ErrPermission) {
			continue
		}
		// Only root may look at the file. The part that is mapped is known at least.
		var from, to, major, minor, inode uint64
		_, err = fmt.Sscanf(fields[0], "%x-%x", &from, &to)
		_, deviceErr := fmt.Sscanf(fields[3], "%x:%x", &major, &minor)
		_, inodeErr := fmt.Sscan(fields[4], &inode)
		if err == nil && deviceErr == nil && inodeErr == nil && unix.Mkdev(uint32(major), uint32(minor)) == c.device {
			c.add(inode, int64(to-from))
		}
	}
}
