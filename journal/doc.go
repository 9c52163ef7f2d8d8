// Package journal stores the commands of a server durably and in order. The state of the server is a function of these
// records.
//
// # Contract
//
//   - If Done was called with nil, the command is in the journal at that seq: the record and the name of its file are
//     written and fsynced. Later it reads back unchanged, or the read fails.
//   - If Done was called with ErrNotStored, the command is not in the journal and never will be. If Done was called with
//     ErrUnknown, it may be.
//   - Deliver gets each record once, in the order of seqs, and only when the record is durable. After a restart, Records
//     yields the same records.
//   - No acknowledged command is lost silently: a start finds all of them, or refuses and reports where the damage is.
//   - This package defines the envelope of a record and does not interpret commands. Its caller defines their content.
//
// The journal is not a message broker: it has no consumers and no acknowledgements. It cannot change or delete a single
// record, and it finds records only by seq.
//
// # One committer
//
//	Propose ──► control lane ──┐                                    ┌──► Done of each, first
//	Propose ──► bulk lane ─────┴─► group ─► one batch ─► one fsync ─┴──► Deliver(group) ──► the applier
//	 waits while 64 MiB                                                  may block: the committer
//	 are in flight                                                       waits for it
//
// The goroutine in Run, the committer, is the only writer. While it syncs one group, the commands of the next group
// arrive, so groups grow with the load. Control commands always join the next group; bulk commands fill it up to 4 MiB.
// The bytes of a command are in flight from Propose until the group's Deliver has returned.
//
// Watermarks: Appended >= Synced. Records are read up to Synced only. The engine adds two more: applied and flushed.
//
// Seqs are without gaps: after a failed write the journal reuses the seqs of the failed group, since no caller has seen
// them. Do not rely on it.
//
// # Bytes
//
//	DIR/
//	  identity                      daybook-journal v=1 uuid=0b5c7e0e-… salt=6f1d2a90 crc=…\n
//	  00000000000000000001/         a volume, named by its first seq: one tidwall/wal log
//	    00000000000000000001        a segment, named by its first seq: entries without gaps
//	    00000000000000021877
//	  00000000000004711000/         the tail volume: the only one that the journal writes to
//	    00000000000004711000
//	    00000000000004733122        the tail segment; may be empty
//
//	  segment   ┌─────────┬─────────┬─────────┬───
//	            │ entry   │ entry   │ entry   │ …       seq, seq+1, seq+2, …
//	            └─────────┴─────────┴─────────┴───      the tail segment may end with zero bytes: room (room.go)
//	  entry     ┌───────────────┬──────────────────────────────────────────────┐
//	            │ length        │ record                                       │
//	            │ uvarint, 1–4  │ `length` bytes                               │
//	            └───────────────┴──────────────────────────────────────────────┘
//	  record    \n#:create v=1 salt=6f1d2a90 seq=812 at=1670273606123 synced=811 bytes=61 client=acme type=resize n=2 frame=line\n
//	            body, `bytes` bytes
//	            \n                  only if the body is not empty and does not end in \n
//	            #:end crc=9ae0daaf\n
//
// A record begins and ends with a line break, so that `grep -a '^#:'` works on the files. AppendRecord in record.go
// documents the exact layout. docs/reference/format-journal.md describes the format for readers in other languages.
//
// # Invariants
//
//   - A volume is complete and durable before the directory of the next volume exists.
//   - A group is one unsynced write. All records before it are durable before its first byte is written, and each of its
//     records says so (`synced`). So a power cut can damage only records after the highest `synced` of all intact
//     records.
//   - After the last group before a pause, and at a clean stop, the committer writes a mark, which proves that group.
//   - tidwall/wal only appends: to the file, or over room, which contains no records. All reading uses the scanner (scan.go),
//     which checks lengths, form, checksum and order.
//   - The engine applies only records that this process has synced, or that an earlier process synced before it wrote
//     more: Open syncs all records that it accepts.
//   - After a failed write or fsync, no more calls are made on that handle (failed_write.go).
//
// # Properties of tidwall/wal v1.2.1
//
// Each of these properties is the reason for a part of this package. They were found in its source or by experiments.
//
//   - It lacks checksums. It reads a changed byte as data, and 4,096 zero bytes at the end as 4,096 empty entries.
//   - Open fails on an incomplete last entry, and repairs nothing.
//   - After a failed write the partial bytes stay. A second write of the same index returns nil, Read returns the old
//     data, and the next Open reports corruption.
//   - It holds its lock during writes and fsyncs, so even LastIndex waits.
//   - It does not sync the directory entries of new segments.
//   - Close begins with an fsync, and leaves the file open if that fails.
//   - Open deletes segments if there are files named *.START or *.END.
//   - TruncateFront rewrites and syncs a segment while it holds the lock.
//   - It keeps the tail segment and at least one more in memory, which is the reason for segments of 4 MiB. It begins each
//     segment without a buffer and copies the bytes again and again as the buffer grows (segment_buffer.go).
//
// # How to change this format
//
// Increase recordVersion. Keep `\n#:VERB v=N ` at the beginning, and `#:end crc=` at the end with the checksum of all
// bytes before it, so that older programs can distinguish a newer record from a damaged one. Make parseRecord read both
// versions. Add testdata/vN and keep the old files.
package journal
