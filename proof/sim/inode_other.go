//go:build !unix

package sim

import "io/fs"

// inodeOf panics: the simulation needs the inodes of files, and this system lacks them.
func inodeOf(info fs.FileInfo) inode { panic("no inode of " + info.Name() + " on this system") }
