// Package directory writes filesets into directories, and builds filesets from directories.
//
// # Contract
//
//   - All work uses an os.Root. Nothing outside of the directory is read or written, even if another process creates links in
//     it at the same time.
//   - Pull writes each file under a temporary name, verifies its size and digest, and then renames it. So a file with a path
//     of the fileset always has either its old or its new content.
//   - Pull replaces only regular files, and does not write through symbolic links. It does not touch files that are not in
//     the fileset.
//   - Scan refuses entries that a fileset cannot contain, such as links and devices, unless the patterns exclude them.
//   - Push uploads only the missing blobs. If a file changes during the upload, Push fails and stores nothing of the file.
//
// If Pull fails, some files may have been written. A repeated Pull fetches only the remaining files.
//
// # Files
//
//	options.go   Options
//	open.go      opening regular files
//	open_unix.go flags for opening
//	open_other.go
//	temporary.go the directory for temporary files
//	tree.go      the directories of a fileset
//	pull.go      Pull
//	unchanged.go reading files that must not have changed
//	scan.go      Scan, Tree
//	push.go      Push
//	send.go      WriteArchive
//
// Not for: names and versions of filesets, and HTTP (package client).
package directory
