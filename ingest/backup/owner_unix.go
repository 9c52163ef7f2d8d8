//go:build unix

package backup

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// giveToOwner gives all files of dir to the owner and the group of the directory of. Only root may change owners, so for
// other users it does nothing, and the files stay theirs.
func giveToOwner(of, dir string) error {
	info, err := os.Stat(of)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(owner.Uid), int(owner.Gid))
	})
}
