// Package powerfs is a FUSE file system for tests of power cuts. It keeps what was synced apart from what was only
// written, and at a cut loses the rest, or keeps it, or some of it, as a seed decides. It lives in memory. The process
// that uses it is an ordinary one, and sees an ordinary file system: TestOrdinary does the same random things here and
// in an ordinary directory.
//
// # What survives a cut
//
// What is durable survives as it is: the data and the length of a file as of its last fsync or fdatasync, and the names
// in a directory as of that directory's last fsync. An fsync of a file does not make its name durable. Of the rest:
//
//   - Data. Each 512-byte sector that was written since is old or new, or what it was between two writes (up to three contents are
//     remembered). By seed, all of a file's sectors are old, or all new, or those in front new, or those behind new, or each by chance.
//   - Length. It is the old one, the new one, one that the file had in between, or any other between the least and the greatest of
//     them, at a sector's end or not. Where a file is longer than its data arrived there are zeros; at one file in eight there is
//     garbage, mostly sectors of files that were removed or cut before, as in file systems that do not order data before metadata.
//   - Names. A change (create, remove, rename, link, mkdir, rmdir) happened or not, as a whole: a renamed file has its old name or its
//     new one, and a name that was renamed over leads to the old file or the new one. By seed, no change is kept, or all, or the first
//     few in their order in the whole tree, or each by chance, whatever directory it is in; only those of the same name keep their
//     order, so that a change is never kept without the earlier ones of the names it has to do with.
//
// # Why that is at least as harsh as a real disk
//
// ext4 and XFS write changes of names to one log, in order: what survives is a beginning of them, and an fsync of
// anything makes all earlier ones durable. That is one of the outcomes here, and the rest go beyond it: names by chance
// across directories, no effect of one file's fsync on any name, a file's length that says nothing about its data.
// POSIX promises no more than what holds here. Sectors are whole since disks write them whole, protected by codes of
// their own. A directory has one name, and a rename is atomic, because every journaling file system sees to that.
//
// A failed fsync (FailSyncs) leaves what it was to write in doubt for good: it reads back, a later fsync succeeds and
// does not write it, and at a cut it is old or new. So Linux does it.
//
// # What it does not do
//
// It does not write back by itself, as a kernel does after some seconds; a cut that keeps all, or any, has the same
// outcomes. A write is not torn within a sector. Nothing durable is lost or altered: that is package corruption's.
// Shared memory maps do not work, as files are opened for direct I/O; neither the journal nor Pebble uses them. Locks
// (flock) are the kernel's own. Access times, owners, symbolic links, extended attributes and holes are not kept.
package powerfs
