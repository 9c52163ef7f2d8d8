// Package directory writes filesets into directories, and makes filesets of directories.
//
// # Contract
//
//   - All work is done through an os.Root. Nothing outside of the directory is read or written, also if another process
//     creates links in it meanwhile.
//   - Pull writes each file under a temporary name, verifies its size and digest, and then renames it. So a file with a
//     path of the fileset has its old content or the new one.
//   - Pull does not replace what is not a regular file, and does not write through symbolic links. It does not touch files
//     that the fileset does not have.
//   - Scan refuses what a fileset cannot have, such as links and devices, unless the patterns exclude it.
//   - Push uploads only the blobs that are missing. A file that changes meanwhile is an error, and nothing is stored of it.
//
// If Pull fails, some files may have been written. A repeated Pull fetches only the others.
//
// # Files
//
//	options.go   Options
//	open.go      opening regular files
//	open_unix.go the flags for that
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
