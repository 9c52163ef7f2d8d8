//go:build unix

package sim

import (
	"io/fs"
	"syscall"
)

// inodeOf returns the inode of a file.
func inodeOf(info fs.FileInfo) inode { return inode(info.Sys().(*syscall.Stat_t).Ino) }
