// Package journal keeps the ordered, durable record of every command: the book of first entry. Everything else is
// posted from it.
//
// # Contract
//
//   - A command whose Done was called with nil is in the journal, at that seq, before that call: written, fsynced, and
//     the name of its file fsynced. It will be read back as it was, or reading it will fail; never as something else.
//   - A command answered ErrNotStored is not in the journal and never will be. One answered ErrUnknown may be.
//   - Records are delivered once each, in seq order, and only when durable. After a restart Records yields the same
//     records, so Deliver plus Records is the journal.
//   - Nothing that was acknowledged is lost silently: a start either finds it, or refuses and says where it ended.
//   - This package does not know what a command means. It owns a record's envelope; the rest is the caller's.
//
// It is not a message broker, has no consumers and no acknowledgements, cannot delete or change a record, and does not
// know a record by anything but its seq.
//
// # One committer
//
//	Propose ──► control lane ──┐                                    ┌──► Done of each, at once
//	Propose ──► bulk lane ─────┴─► group ─► one batch ─► one fsync ─┴──► Deliver(group) ──► the applier
//	 waits while 64 MiB                                                  may block: all of this waits then
//	 are in flight
//
// The goroutine in Run is the only writer. While it syncs one group the next gathers; the more wait, the larger the
// groups. Control commands always join the next group; bulk fills it up to 4 MiB. Bytes count as in flight from Propose
// until the group's Deliver has returned.
//
// Watermarks: Appended >= Synced; the store adds applied and flushed. Records are read up to Synced only.
//
// Seq is without gaps: the seqs of a group that was not stored are used again, since nobody ever saw them. Do not rely
// on it.
//
// # Bytes
//
//	DIR/
//	  identity                      daybook-journal v=1 uuid=0b5c7e0e-…\n
//	  00000000000000000001/         a volume, named by its first seq: one tidwall/wal log
//	    00000000000000000001        a segment, named by its first seq: entries, back to back
//	    00000000000000021877
//	  00000000000004711000/         the tail volume: the only one that is written
//	    00000000000004711000
//	    00000000000004733122        the tail segment; may be empty
//
//	  segment   ┌─────────┬─────────┬─────────┬───
//	            │ entry   │ entry   │ entry   │ …       seq, seq+1, seq+2, …
//	            └─────────┴─────────┴─────────┴───
//	  entry     ┌───────────────┬──────────────────────────────────────────────┐
//	            │ length        │ record                                       │
//	            │ uvarint, 1–4  │ `length` bytes                               │
//	            └───────────────┴──────────────────────────────────────────────┘
//	  record    \n#:create v=1 seq=812 at=1670273606123 synced=811 bytes=61 client=acme type=resize n=2 frame=line\n
//	            body, `bytes` bytes
//	            \n                  only if the body is not empty and does not end in \n
//	            #:end crc=9ae0daaf\n
//
// A record begins and ends at a line break, so that `grep -a '^#:'` works on the files as they are. record.go has the
// layout to the byte; docs/format-journal.md says all of this to somebody who writes a reader in another language.
//
// # Invariants
//
//   - A volume is complete and durable before its successor's directory exists.
//   - A group is one unsynced write. All before it is durable before its first byte is written; every record in it says
//     so (`synced`). So what a power cut can damage is exactly the records after the highest `synced` of any intact
//     one.
//   - After the last group before a pause, and at a clean stop, a mark follows, which proves that group.
//   - tidwall/wal only appends. All reading is the scanner's (scan.go), which checks lengths, form, checksum and order.
//   - Nothing is applied that was not fsynced by somebody alive: Open syncs all it accepts before it returns.
//   - No call is made on a handle whose write or fsync has failed (failed_write.go).
//
// # What tidwall/wal v1.2.1 does not do
//
// Read in its source or provoked; each is the reason for a part of this package. No checksums: a flipped byte is read
// as data, and 4,096 zero bytes after the tail load as 4,096 empty entries. Open fails on a torn last entry and repairs
// nothing. After a failed write the partial bytes stay, a retry of the index returns nil, Read gives the old data, and
// the next Open says corrupt. Its lock is held through write and fsync, so even LastIndex waits. The directory entries
// of new segments are not synced. Close begins with an fsync and keeps the file open if that fails. Open acts on files
// named *.START and *.END by deleting segments. TruncateFront rewrites and syncs under the lock. The tail segment and
// at least one more stay in memory, and grow by reallocation: about a quarter of the CPU in bulk posts, and the reason
// for segments of 4 MiB.
//
// # Files
//
//   - journal.go, open.go, identity.go, directory.go: the options and the Journal; its start; its UUID; its directory
//     and lock.
//   - lifecycle.go: Run and Close.
//   - propose.go, commit.go, clock.go: Propose and the lanes; what the committer does with a group; the journal's time.
//   - failed_write.go: what happens when a write or an fsync fails.
//   - record.go, record_parser.go: a record's text, written and read.
//   - scan.go, survey.go, tail_table.go: the records of a segment; the end of the journal; what a start decides about
//     it.
//   - read.go, verify.go: reading the records; what is readable, for operators.
//   - volume.go, volume_list.go: volumes and segments as files; the volumes of an open journal.
//   - volume_removal.go, give_up.go: removing or archiving old volumes; giving up damaged records.
//   - status.go, errors.go, hooks.go: counters and latencies; errors; the file system calls that tests replace.
//
// # How to change this format
//
// Increase recordVersion. Keep `\n#:VERB v=N ` at the beginning and `#:end crc=` at the end, with the checksum over all
// before it, so that older programs distinguish "newer" from "damaged" and refuse. Make parseRecord read both versions.
// Add testdata/vN and keep the old files.
package journal
