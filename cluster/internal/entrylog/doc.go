// Package entrylog keeps the entries of a Raft group on disk, in package journal, and reads them for Raft.
//
// # Records
//
// Each record of the journal is one of these. Records only follow each other: nothing that was written is changed. An entry
// whose index was written before replaces that entry and all later ones, as Raft requires, so a conflict of two leaders
// costs no more than the write of the new entries.
//
//	entry   index, term, the commit index that was known, and the data of the entry: its first line is in the fields
//	state   the term and the vote, if they changed without an entry
//	base    the state of the node is a copy that includes an index; the entries before it are not here
//	places  where entries are, so that a start need not read all of them
//
// # Durability
//
// An entry, a term and a vote are answered once they are on disk. The commit index is not worth a write of its own: it goes
// along with the next record. The node takes the higher of it and of the cursor of its store.
//
// After a failed write the log takes nothing more. The node closes it, leaves the group, and opens it from the disk again,
// because only a start finds out what is there.
//
// # Room
//
// Cut removes entries that the node and the others no longer need, by whole volumes of the journal. The newest entries stay
// in memory, up to Options.CacheBytes, for members that are only a little behind.
package entrylog
