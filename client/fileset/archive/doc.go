// Package archive reads filesets from tar archives, and writes them as tar archives.
//
// # Contract
//
//   - Read gives the content of each file to a Batch, in the order of the archive, and returns the manifest. It returns no
//     manifest unless the whole archive was read, up to the mark at its end.
//   - Read accepts only regular files and directories, with the paths that package fileset accepts. It refuses links,
//     devices, sparse files, and paths that occur twice.
//   - Read holds one small file in memory for each worker, and the manifest. It bounds the bytes between the files, so a
//     compressed stream cannot expand without end. The Batch bounds the bytes of the files.
//   - Write gives the same bytes for the same manifest.
//
// # Archives
//
// Read takes the forms that package archive/tar reads: v7, ustar, PAX and GNU, with long names. A leading `./` of a path is
// removed, as `tar c .` writes it. Global PAX headers, as `git archive` writes them, are ignored.
//
// An archive ends in two blocks of zeros. Without them it is refused: a tar that was killed between two files leaves an
// archive that looks complete otherwise. After the two blocks only zeros may follow.
//
// Write uses the mode 0644, or 0755 for executable files and directories, the owner 0, and one fixed time.
//
// # Files
//
//	errors.go  the errors
//	stream.go  counting and bounding what is read of an archive
//	header.go  which entries are accepted, and their paths
//	read.go    Batch and Read
//	write.go   Write
//
// Not for: compression (package api), and storing blobs (package blob).
package archive
