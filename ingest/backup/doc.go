// Package backup makes backups of a running server, verifies them, and restores them.
//
// # Contract
//
//   - A backup has every command that the server had acknowledged when the backup was requested, and no later command without
//     all commands before it.
//   - A backup appears in its directory in one step, when it is complete, durable and verified. Until then the earlier
//     backups are unchanged.
//   - Restore makes a data directory only from a backup in which every byte is as it was written. A new data directory
//     appears in one step. An existing one gets its journal last, and no server starts without a journal.
//   - A killed command leaves only directories with recognizable names, and the next command removes them.
//   - No path in a stream or in a manifest leads out of the directory of the backup.
//
// # A stream
//
// Write sends a snapshot of package ingest as a tar:
//
//	journal/identity
//	journal/<20 digits>/<20 digits>   the segments with the records from the store's cursor to the last record
//	store/…                           a checkpoint of Pebble
//	backup.json                       the Manifest: the digests of all files, the cursor, the last seq
//
// A stream without backup.json at its end is not complete.
//
// # A directory
//
//	DIR/20261123T180500.123Z/      a backup, named by the time at which it was taken
//	    backup.json  journal/  store/
//	    blobs.list                 its blobs: address, bytes, client; missing if it was made without blobs
//	    backup.sha256              the digests of backup.json and blobs.list, in the format of sha256sum
//	DIR/blobs/                     the blobs of all backups, in the layout of package blob
//	DIR/.partial-…                 a backup that is being made
//	DIR/.removed-…                 a backup that is being removed
//	    under-way                  in both: marks a directory that a backup made, so that the next command may remove it
//
// Files of the store that two backups have in common are hard links.
//
// Not for: taking the snapshot (package ingest), requests to a server (package client).
package backup
