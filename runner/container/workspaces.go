package container

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/daybookq/daybook/internal/filelock"
	"github.com/daybookq/daybook/runner/disk"
)

// workspaces is the directory of the runs of all runners of a machine:
//
//	DIR/id                      a random text, by which containers name the directory
//	DIR/<instance>/             of one process, which holds a lock on it
//	DIR/<instance>/<run>/files  the container's /workspace
//
// The container's output is in an unnamed file in DIR/<instance>/<run>.
//
// Invariant: an instance whose directory is missing or not locked has ended. Its containers may be removed.
type workspaces struct {
	dir, id, instance string
	lock              io.Closer // of the instance
}

// gateWait bounds the wait for the lock of the directory. A runner holds the lock while it creates or lists instances.
const gateWait = 30 * time.Second

// openWorkspaces creates the directory if it is missing, and an instance in it.
func openWorkspaces(dir string) (*workspaces, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the directory of workspaces: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, fmt.Errorf("look at the directory of workspaces: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("the directory of workspaces %s is no directory", dir)
	}
	if err := safeOwner(info); err != nil {
		return nil, fmt.Errorf("the directory of workspaces %s is not safe: %w", dir, err)
	}
	w := &workspaces{dir: dir, instance: instancePrefix + rand.Text()}
	err = w.exclusively(func() error {
		if w.id, err = w.readID(); err != nil {
			return err
		}
		if err := os.Mkdir(w.path(w.instance), 0o700); err != nil {
			return err
		}
		w.lock, err = filelock.Open(w.path(w.instance))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("prepare the directory of workspaces: %w", err)
	}
	return w, nil
}

func (w *workspaces) path(names ...string) string {
	return filepath.Join(append([]string{w.dir}, names...)...)
}

// exclusively calls f while no other runner creates or lists instances.
func (w *workspaces) exclusively(f func() error) error {
	gate, err := filelock.Open(w.dir)
	for end := time.Now().Add(gateWait); errors.Is(err, filelock.ErrLocked) && time.Now().Before(end); gate, err = filelock.Open(w.dir) {
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", w.dir, err)
	}
	defer gate.Close()
	return f()
}

// readID returns the id of the directory. The first runner creates it.
func (w *workspaces) readID() (string, error) {
	path := w.path("id")
	text, err := os.ReadFile(path)
	if id := strings.TrimSpace(string(text)); err == nil && len(id) >= 26 && len(id) < 100 {
		return id, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := w.isOurs(); err != nil {
		return "", err
	}
	id := rand.Text()
	if err := os.WriteFile(path+".new", []byte(id+"\n"), 0o600); err != nil {
		return "", err
	}
	return id, os.Rename(path+".new", path)
}

// isOurs returns an error if a directory without an id has unknown files, because runners delete the files of ended
// runners in it.
func (w *workspaces) isOurs() error {
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if name := e.Name(); name != "id.new" && name != "lost+found" && !isInstance(name) {
			return fmt.Errorf("%s has other files, such as %s; name an empty directory", w.dir, name)
		}
	}
	return nil
}

// instancePrefix is the prefix of the names of instances.
const instancePrefix = "run-"

func isInstance(name string) bool {
	text, found := strings.CutPrefix(name, instancePrefix)
	return found && len(text) == 26 && strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == "" // the form of rand.Text
}

// ended returns the instances whose processes have ended. Each is locked until the caller closes it.
func (w *workspaces) ended() (map[string]io.Closer, error) {
	ended := map[string]io.Closer{}
	err := w.exclusively(func() error {
		entries, err := os.ReadDir(w.dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !e.IsDir() || !isInstance(e.Name()) || e.Name() == w.instance {
				continue
			}
			lock, err := filelock.Open(w.path(e.Name()))
			if err == nil {
				ended[e.Name()] = lock
			} else if !errors.Is(err, filelock.ErrLocked) {
				return err
			}
		}
		return nil
	})
	return ended, err
}

// has reports whether an instance has a directory.
func (w *workspaces) has(instance string) bool {
	_, err := os.Lstat(w.path(instance))
	return !errors.Is(err, fs.ErrNotExist)
}

// close removes the instance.
func (w *workspaces) close() error {
	err := disk.RemoveTree(w.path(w.instance))
	return errors.Join(err, w.lock.Close())
}

// workspace is the directory of one run.
type workspace struct {
	path  string // of the run
	files *os.Root
}

func (w *workspaces) newRun() (*workspace, error) {
	ws := &workspace{path: w.path(w.instance, rand.Text())}
	err := os.Mkdir(ws.path, 0o700)
	if err == nil {
		err = os.Mkdir(ws.dir(), 0o700)
	}
	if err == nil {
		ws.files, err = os.OpenRoot(ws.dir())
	}
	if err != nil {
		return nil, fmt.Errorf("create a workspace: %w", err)
	}
	return ws, nil
}

func (ws *workspace) dir() string { return filepath.Join(ws.path, "files") }

func (ws *workspace) remove() error {
	ws.files.Close()
	return disk.RemoveTree(ws.path)
}
