// Package powerfs is a FUSE file system for tests of power cuts. It keeps synced data apart from data that was only
// written. At a cut it loses the unsynced data, keeps it, or keeps some of it, as a seed decides.
//
// The file system is in memory. A process that uses it sees an ordinary file system: TestOrdinary makes the same random
// operations here and in an ordinary directory, and compares the results.
//
// # What survives a cut
//
// Durable state survives unchanged. It consists of
//
//   - the data and the length of a file, as of its last fsync or fdatasync;
//   - the names in a directory, as of the last fsync of that directory. An fsync of a file does not make its name
//     durable.
//
// The rest may or may not survive:
//
//   - Data. Each sector of 512 bytes that was written since the last sync has its old content, its new content, or a
//     content that it had between two writes (at most three are remembered). The seed decides for each file: all sectors
//     are old, all are new, the first ones are new, the last ones are new, or chance decides for each sector.
//   - Length. A file has its old length, its new length, an intermediate length that it had, or any length between the
//     shortest and the longest of these, at the end of a sector or not. Where a file is longer than the data that
//     survived, it has zeros. One file in eight has garbage there: mostly sectors of files that were removed or cut
//     before. A file system that does not write data before metadata leaves the same.
//   - Names. A change of names (create, remove, rename, link, mkdir, rmdir) happened as a whole or not at all. So a
//     renamed file has either its old name or its new one, and a name that was renamed over leads to the old file or to
//     the new one. The seed decides that no change survives, that all do, that the first few of the whole tree do, or
//     that chance decides for each change, in any directory. Changes of the same name keep their order: none survives
//     without the earlier changes of its names.
//
// # Why this is at least as harsh as a real disk
//
//   - ext4 and XFS write changes of names to one log, in order. So a beginning of that log survives, and an fsync of
//     anything makes all earlier changes durable. This is one of the outcomes here. The other outcomes are worse: changes
//     survive by chance across directories, an fsync of a file affects no name, and the length of a file says nothing
//     about its data. POSIX promises no more than this file system does.
//   - A sector is written as a whole, since disks protect each sector by a separate code.
//   - A rename is atomic, and a directory has one name, since every journaling file system ensures both.
//   - After a failed fsync (FailSyncs), the data of that fsync reads back. A later fsync succeeds without writing it.
//     After a cut it is old or new. Linux does the same.
//
// # What it does not do
//
//   - It does not write data back unprompted, as a kernel does after some seconds. A cut that keeps everything, or some
//     of it, has the same outcomes.
//   - It does not tear a write within a sector.
//   - It does not lose or alter durable data. Package corruption does that.
//   - It does not support shared memory maps, since files are opened for direct I/O. Neither the journal nor Pebble uses
//     them.
//   - The kernel handles locks (flock).
//   - It does not keep access times, owners, symbolic links, extended attributes and holes.
package powerfs
