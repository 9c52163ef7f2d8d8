// Package blob stores blobs under a client and the digest of their bytes, in a directory or in a bucket.
//
// # Contract
//
//   - If Put has returned an Info, the blob is durable: its bytes, its name, and its SHA-1 entry are fsynced.
//   - If Put has returned an error, the upload has left nothing, and an older blob is unchanged. After a failed fsync,
//     Put removes the new file. If it cannot, all reads of the Store treat the file as absent.
//   - No read sees a blob that is not durable yet. So a producer may rely on Stat and Missing as it does on Put.
//   - If Commit of a batch has returned nil, the same holds for all its blobs. If it has returned an error, or Discard
//     was called, the batch has added none of them. After a crash in between, some may be stored.
//   - A read never gives bytes of a damaged blob and reports success. Put repairs a damaged blob.
//   - A sweep removes no blob that its caller names, that was put in the last 24 hours (Options.Grace), or that Missing
//     reported as present in the last 23.
//   - The sizes of all blobs and of all unfinished uploads are together at most the quota, at every moment and after
//     every start. If somebody else changes a file, its old size counts until the next start.
//
// # Addresses
//
// The address of a blob is `sha256:` and the hex digits of its SHA-256. Parse also takes 64 hex digits, `sha256-` and
// base64, and 40 hex digits of SHA-1. Put computes the SHA-1 of each blob, and stores an entry that leads from it to
// the address. If two contents with the same SHA-1 are put, the first keeps the entry as long as it is stored. SHA-1
// collisions can be made on purpose: a SHA-1 finds a blob, but proves nothing about its content. Blobs that were copied
// into the directory have no SHA-1 until they are put.
//
// # Resumable uploads
//
// NewUpload begins an upload that survives lost connections and restarts. Append adds bytes at its end, and Finish
// stores the blob. The id is 128 random bits: whoever knows it may append, finish and remove.
//
//   - Bytes that an Append has acknowledged are durable, and so are the bytes that State counts after a failed Append.
//     A long Append makes its bytes durable every 64 MiB.
//   - After a restart the digests continue from their saved states. If these cannot be read, because a new version of
//     Go writes them in another way, or if bytes are missing, the upload is removed and its client begins again.
//   - The bytes count in the quota as they arrive. A client has at most 1,000 uploads. Sweep removes an upload after
//     24 hours without progress. After Finish, the result is kept for 24 hours too, for a client that did not get the
//     answer.
//   - One Append, Finish or Remove runs at a time. A second call waits until the first has stored the bytes that it
//     received. An Append whose stream does not end keeps the upload busy. A server must end the stream of a dead
//     connection.
//
// # Reading, and HTTP
//
// A digest is known only when all bytes were read. A server that has sent a status and a Content-Length cannot take
// them back. There are two ways:
//
//   - WriteTo reads the blob once, and computes the digest at the same time. It withholds the last piece, of at most 1
//     MiB, until the digest is right. If it is not, WriteTo returns a *DamagedError, and the server must not end the
//     answer in the ordinary way: it panics with http.ErrAbortHandler. The client then has fewer bytes than the
//     Content-Length and gets an error. This is right for an answer with the whole blob: there is no wait before the
//     first byte, and the disk is read once.
//   - Read, ReadAt and Seek, which http.ServeContent uses, verify the whole blob before they give the first byte. This
//     is right for ranges: a range does not contain the damaged byte, or the end of the blob. A blob that was verified
//     in the last 10 minutes, and whose file has not changed since, is not verified again, so many ranges of a large
//     blob cost one verification. An open Blob stays verified for as long as its file does not change. A server that
//     calls Verify before it answers can still choose status 500.
//
// A blob of 64 MiB or more is verified in the background. All readers share the verification. It continues if they give
// up, and ends a minute after the last reader has gone, or at Close. At most 8 verifications run at a time, and
// further ones wait. Verify waits for 10 seconds and then returns ErrVerifying. A server can answer with
// status 503, and the client tries again.
//
// For a blob of a few MiB, calling Verify before WriteTo costs little and gives the client a status instead of a broken
// connection.
//
// # Clients
//
// A Store has the blobs of each client of the server, and blobs that all clients share. Each method takes the client. A
// client reads its blobs and the shared ones, and changes only its blobs. Equal blobs of two clients are stored twice.
// Otherwise the time of an upload, Info.Existed and Missing would show a client which blobs other clients have. There
// are at most 10,000 clients with blobs. In a directory, the first blob makes a folder, and a sweep removes an empty
// one. Two quotas hold: one for each client, and one for all together.
//
// # Backends
//
// A Store receives, verifies, counts, renews and sweeps blobs. A Backend keeps them: a directory (OpenDir), or a bucket
// (Open, with the backend of package blob/s3). With a bucket, the directory of the store only receives uploads: each
// complete file is copied, and removed when the bucket has acknowledged it. Differences from a directory:
//
//   - Put, Commit and Finish return when the bucket has acknowledged the blobs. If one of them fails, some of the blobs
//     may be stored, whole. The next collections remove them unless a job names them.
//   - Commit shows the blobs one after the other. Batch.Add does not report whether the store had a blob.
//   - A sweep removes nothing if the bucket's clock and the machine's clock differ by more than 15 minutes.
//   - If the bucket does not answer, all methods return ErrUnavailable.
//   - The directory contains only uploads. If it is lost, unfinished uploads are lost, and all blobs remain.
//
// # Bytes
//
//	DIR/
//	  uploads/put-*          uploads; a start removes the files of a killed process
//	  uploads/resumable-u<32 hex>       bytes of a resumable upload
//	  uploads/resumable-u<32 hex>.json  its client, how many bytes count, and the states of the digests
//
//	  oci-layout             an OCI image layout of version 1.0.0
//	  index.json             without manifests
//	  blobs/sha256/<64 hex>  the blobs. Their mtime is when they were put or renewed last
//	  sha1/<40 hex>          "sha256:<64 hex>\n"
//
//	  clients/NAME/          the same four for a client
//
// OCI tools can read the directory. They must not write to it, and must not collect garbage in it: to them, no blob is
// in use. A flock on DIR keeps out other Stores, but not other programs. All files have mode 0600, and directories
// 0700. File names are made of digits that were checked. Symbolic links below DIR are not followed.
//
// Put calls, in this order: write and fsync of the upload; write, fsync and rename of the SHA-1 entry, and fsync of its
// directory; rename of the upload, and fsync of its directory. So a blob that is visible after a crash has its SHA-1. A
// batch does the same for many: write and sync of all files, by one syncfs where the store trusts it; rename of all
// SHA-1 entries, and fsync of their directory; rename of all uploads, and fsync of their directory.
//
// # Sweeping
//
// There are no reference counts. Sweep asks its caller for each old blob whether a job names it. A producer must put a
// blob, or call Missing with it, before it creates a job that names it. So if Sweep's caller does not know a job yet,
// the job's blobs are young. Put, Missing and Sweep own an address while they read the age of its blob and change it.
// So a sweep either removes the blob before a Put or Missing, and then Put stores it again and Missing reports it, or
// does not remove it at all.
//
// Not for: the meaning of a blob, names for blobs other than digests, and permissions to read or write them.
package blob
