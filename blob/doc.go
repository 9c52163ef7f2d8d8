// Package blob stores blobs under the digest of their bytes, in a directory or in a bucket.
//
// # Contract
//
//   - If Put has returned an Info, the blob is durable: its bytes, its name, and its SHA-1 entry are fsynced.
//   - If Put has returned an error, the upload has left nothing, and a blob that was there before is unchanged. After a
//     failed fsync the new file is removed; while it cannot be removed, all reads of this Store treat it as absent.
//   - No read sees a blob that is not durable yet. So a producer may rely on Stat and Missing as on Put.
//   - If Commit of a batch has returned nil, the same holds for all its blobs. If it has returned an error, or Discard
//     was called, none of them is there that was not there before. After a crash in between, some may be.
//   - A read never gives bytes of a damaged blob and reports success. Put repairs a damaged blob.
//   - A sweep removes no blob that its caller names, and none that was put in the last 24 hours (Options.Grace), or
//     reported as present by Missing in the last 23.
//   - The sizes of all blobs and of all uploads under way are together at most the quota, at every moment and after
//     every start. Files that somebody else changes are counted as they were, until the next start.
//
// # Addresses
//
// The address of a blob is `sha256:` and the hex digits of its SHA-256. Parse also takes 64 hex digits, `sha256-` and
// base64, and 40 hex digits of SHA-1. Put computes the SHA-1 of each blob, and stores where it leads. If two contents
// with the same SHA-1 are put, the first keeps it as long as it is stored. SHA-1 collisions can be made on purpose: a
// SHA-1 finds a blob, but proves nothing about its content. Blobs that were copied into the directory have no SHA-1
// until they are put.
//
// # Resumable uploads
//
// NewUpload begins an upload that survives lost connections and restarts. Append adds bytes at its end, and Finish stores
// the blob. The id is 128 random bits: whoever knows it may append, finish and remove.
//
//   - Bytes that an Append has acknowledged are durable, and so are those that State counts after a failed one. During a
//     long Append this is done each 64 MiB.
//   - After a restart the digests go on from their saved states. If these cannot be read, because a new version of Go
//     writes them in another way, or if bytes are missing, the upload is gone and its client begins again.
//   - The bytes count in the quota as they arrive. A store has at most 1,000 uploads. One without progress for 24 hours
//     is removed by Sweep, and its result is kept as long after Finish, for a client that did not get the answer.
//   - One Append, Finish or Remove runs at a time. Another waits until the first has stored what it received. An Append whose stream does not end keeps the upload busy. A server
//     must end the stream of a dead connection.
//
// # Reading, and HTTP
//
// A digest is known only when all bytes were read. A server that has sent a status and a Content-Length cannot take
// them back. There are two ways:
//
//   - WriteTo reads the blob once, and computes the digest meanwhile. It withholds the last piece, of at most 1 MiB,
//     until the digest is right. If it is not, WriteTo returns a *DamagedError, and the server must not end the answer
//     in the ordinary way: it panics with http.ErrAbortHandler. The client then has fewer bytes than the Content-Length
//     and gets an error. This is right for an answer with the whole blob: there is no wait before the first byte, and
//     the disk is read once.
//   - Read, ReadAt and Seek, which http.ServeContent uses, verify the whole blob before they give the first byte. This
//     is right for ranges: a range does not contain the damaged byte, or the end of the blob. A blob that was verified
//     in the last 10 minutes, and whose file has not changed since, is not verified again, so many ranges of a large
//     blob cost one verification. An open Blob stays verified for as long as its file does not change. A server that
//     calls Verify itself can still answer with status 500.
//
// A blob of 64 MiB or more is verified in the background. All readers share that, and it goes on if they give up: it ends
// a minute after the last one, or at Close. At most 8 run at once in a directory, and others wait. Verify waits for it
// for 10 seconds and then returns ErrVerifying. A server can answer with status 503, and the client tries again.
//
// For a blob of a few MiB, calling Verify before WriteTo costs little and gives the client a status instead of a broken
// connection.
//
// # Clients
//
// Clients has a store for each client of the server, and one that all share. A client reads its own blobs and the shared
// ones, and changes only its own. Each store is a Dir with a directory of its own: equal blobs are not stored once, because
// the time of an upload, Info.Existed and Missing would show what others have. There are at most 10,000 clients with
// blobs. The first blob makes a directory, and a sweep removes an empty one. Two quotas hold: that of each client, and
// that of all together.
//
// # Other places
//
// OpenBucket opens the same stores in a Bucket, which package blob/s3 has. The directory then only receives uploads: each
// complete file is copied, and removed when the bucket has acknowledged it. What differs from a directory:
//
//   - Put, Commit and Finish return when the bucket has acknowledged the blobs. If one of them fails, some of the blobs may
//     be there, whole. The next collections remove those that nothing names.
//   - Commit shows the blobs one after the other. Batch.Add does not report whether the store had a blob.
//   - A sweep removes nothing if the clock of the bucket and that of the machine differ by more than 15 minutes.
//   - If the bucket does not answer, all methods return ErrUnavailable.
//   - The directory has no blob, so it may be lost: then only uploads under way are.
//
// # Bytes
//
//	DIR/
//	  oci-layout             an OCI image layout of version 1.0.0
//	  index.json             without manifests
//	  blobs/sha256/<64 hex>  the blobs. Their mtime is when they were put or renewed last
//	  sha1/<40 hex>          "sha256:<64 hex>\n"
//	  uploads/put-*          uploads; OpenDir removes what a killed process has left
//	  uploads/resumable-u<32 hex>       bytes of a resumable upload
//	  uploads/resumable-u<32 hex>.json  how many of them count, and the states of the digests
//
//	  clients/NAME/          the same for a client
//
// OCI tools can read the directory. They must not write to it, and must not collect garbage in it: for them, no blob is
// in use. A flock on DIR keeps other Stores out, and no other programs. All files have mode 0600, and directories 0700.
// File names are made of digits that were checked. Symbolic links below DIR are not followed.
//
// Put calls, in this order: write and fsync of the upload; write, fsync and rename of the SHA-1 entry, and fsync of its
// directory; rename of the upload, and fsync of its directory. So a blob that is visible after a crash has its SHA-1. A
// batch does the same for many: write and sync of all files, by one syncfs where that can be trusted; rename of all SHA-1
// entries, and fsync of their directory; rename of all uploads, and fsync of their directory.
//
// # Sweeping
//
// There are no reference counts. Sweep asks its caller for each old blob whether a job names it. A producer must have
// put a blob, or asked Missing for it, before it creates a job that names it. So a blob that is named by a job that
// Sweep's caller does not know yet is young. Put, Missing and Sweep own an address while they look at the age of its
// blob and change it: a sweep removes it either before, and then Put stores it again and Missing reports it, or not at
// all.
//
// # Files
//
//	errors.go        the errors
//	address.go       the addresses of package digest, and the names of files
//	hooks.go         the clock and the file system calls that tests replace
//	file_unix.go     open files: locks, duplicates, what changes with a file; free space
//	file_other.go    systems without these, on which no directory of blobs is opened
//	sync_linux.go    syncing a whole file system; beginning to write a part of a file
//	sync_other.go    systems that sync one file after the other
//	files.go         how many files are open
//	verified.go      which files were verified a short while ago, and verifications that go on without a reader
//	blob.go          Store, Batch, Upload and Blob; Info
//	dir.go           Options and Dir; Stat, Delete and List; owning an address; durable names
//	syncs.go         making many files durable with few fsyncs
//	age.go           Missing; the ages of blobs, which it and batches renew
//	digest_table.go  from SHA-1 to addresses
//	tally.go         the quota of a store, and that of several
//	open.go          OpenDir and Close; the layout
//	receive.go       receiving a stream: the digests, the quota and the reserve
//	put.go           Put
//	publish.go       names for uploads that are durable
//	batch.go         NewBatch: many blobs with few fsyncs
//	resumable.go     NewUpload and Upload: blobs that arrive in parts
//	resumable_open.go  what an earlier process has left of them
//	get.go           Get, and the Blob that it opens
//	remote.go        Remote and Bucket: blobs in another place; copying uploads to it, and counting their bytes
//	remote_get.go    reading from there
//	remote_store.go  the other methods of the Store
//	remote_table.go  entries of the SHA-1 table whose blobs are gone
//	sweep.go         Sweep
//	clients.go       OpenClients: a store for each client
//	client_store.go  the Store of a client
//	find.go          finding addresses in texts
//	collector.go     Collector: sweeping the blobs that nothing names
//	later.go         Later: stores in a place that may not answer yet
//	keeper.go        Keeper: the stores of a server, and regular collections
//
// Not for: what a blob means, names for blobs other than digests, and who may read or write them.
package blob
