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
// Not for: names and versions of filesets, and HTTP (package client).
package directory
