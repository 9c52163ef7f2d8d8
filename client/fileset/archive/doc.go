// Package archive reads filesets from tar archives, and writes them as tar archives.
//
// # Contract
//
//   - Read passes the content of each file to a Batch, in the order of the archive, and returns the manifest. It returns a
//     manifest only if it has read the whole archive, up to the mark at its end.
//   - Read accepts only regular files and directories, with paths that package fileset accepts. It refuses links, devices,
//     sparse files, and paths that occur twice.
//   - Read holds one small file per worker in memory, and the manifest. It bounds the bytes between the files, so a
//     compressed stream cannot expand without end. The Batch bounds the bytes of the files.
//   - Write produces the same bytes for the same manifest.
//
// # Archives
//
// Read accepts the formats that package archive/tar reads: v7, ustar, PAX and GNU, with long names. It removes a leading
// `./` from a path, which `tar c .` writes, and ignores global PAX headers, which `git archive` writes.
//
// An archive ends in two blocks of zeros. Read refuses an archive without them, because a tar that was killed between two
// files leaves an archive that otherwise looks complete. Only zeros may follow the two blocks.
//
// Write uses the mode 0644, or 0755 for executable files and directories, the owner 0, and one fixed time.
//
// Not for: compression (package api), and storing blobs (package blob).
package archive
