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

// deletedFiles counts the files of a workspace that a container has deleted, but keeps open or mapped. They take up disk
// space, and walk does not find them.
type deletedFiles struct {
	first  int    // a process of the container
	pids   string // PID namespace of the container
	device uint64 // of the workspace
}

var errHidden = errors.New("the processes of the container cannot be looked at")

// newDeletedFiles returns a counter for the container whose first process has the given id. It returns errHidden if the
// runner cannot see the container's processes: the engine runs elsewhere, or the runner lacks the rights.
func newDeletedFiles(first int, workspace string) (*deletedFiles, error) {
	own, err := os.Stat(workspace)
	if err != nil {
		return nil, err
	}
	if first <= 0 {
		return nil, fmt.Errorf("%w: the engine does not name one", errHidden)
	}
	// If the engine has other process ids than the runner, the id may belong to another process. Check that it sees this
	// workspace.
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

// bytes returns the disk space of the deleted files. It stops counting when it exceeds most.
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
	below := map[string]bool{d.pids: true} // by PID namespace: whether it is the container's or below it
	for _, name := range names {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if _, err := strconv.Atoi(name); err != nil {
			continue
		}
		pids, err := os.Readlink("/proc/" + name + "/ns/pid")
		if err != nil {
			continue // it belongs to another user, or has ended
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

// maxNested is how deep Linux nests PID namespaces.
const maxNested = 32

// below reports whether a PID namespace is below the container's. A container can create namespaces if nothing prevents
// it.
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
			return false // beyond the runner's own namespace, no parent is visible
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

// deletedCount counts each file once. It ignores errors of processes that have ended.
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

// look counts the file behind a path in /proc, if it is a deleted file of the workspace.
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
			c.look(process + "/fd/" + name) // fails if the process has closed it
		}
		if err != nil || len(names) == 0 {
			return
		}
	}
}

// mapped counts the mapped files of a process, which need not be open.
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
		// Only root may stat the file. Count at least the mapped part.
		var from, to, major, minor, inode uint64
		_, err = fmt.Sscanf(fields[0], "%x-%x", &from, &to)
		_, deviceErr := fmt.Sscanf(fields[3], "%x:%x", &major, &minor)
		_, inodeErr := fmt.Sscan(fields[4], &inode)
		if err == nil && deviceErr == nil && inodeErr == nil && unix.Mkdev(uint32(major), uint32(minor)) == c.device {
			c.add(inode, int64(to-from))
		}
	}
}
