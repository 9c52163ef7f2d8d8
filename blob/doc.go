// Package blob stores blobs under the digest of their bytes, in a directory. Nothing imports it yet.
//
// # Contract
//
//   - If Put has returned an Info, the blob is durable: its bytes, its name, and its SHA-1 entry are fsynced.
//   - If Put has returned an error, the upload has left nothing, and a blob that was there before is unchanged. After a
//     failed fsync the new file is removed; while it cannot be removed, all reads of this Store treat it as absent.
//   - No read sees a blob that is not durable yet. So a producer may rely on Has and Missing as on Put.
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
//     blob cost one verification. A server that calls Verify itself can still answer with status 500.
//
// For a blob of a few MiB, calling Verify before WriteTo costs little and gives the client a status instead of a broken
// connection.
//
// # Bytes
//
//	DIR/
//	  oci-layout             an OCI image layout of version 1.0.0
//	  index.json             without manifests
//	  blobs/sha256/<64 hex>  the blobs. Their mtime is when they were put or renewed last
//	  sha1/<40 hex>          "sha256:<64 hex>\n"
//	  uploads/put-*          uploads; Open removes what a killed process has left
//
// OCI tools can read the directory. They must not write to it, and must not collect garbage in it: for them, no blob is
// in use. A flock on DIR keeps other Stores out, and no other programs. All files have mode 0600, and directories 0700.
// File names are made of digits that were checked. Symbolic links below DIR are not followed.
//
// Put calls, in this order: write and fsync of the upload; write, fsync and rename of the SHA-1 entry, and fsync of its
// directory; rename of the upload, and fsync of its directory. So a blob that is visible after a crash has its SHA-1.
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
//	address.go       Address, SHA1, Ref, and Parse
//	hooks.go         the clock and the file system calls that tests replace
//	verified.go      which files were verified a short while ago
//	store.go         Options and Store; Has, Missing, Delete and List; owning an address; durable names
//	digest_table.go  from SHA-1 to addresses
//	open.go          Open and Close; the layout
//	put.go           Put: receiving a stream, the quota, the reserve, and making it durable
//	get.go           Get, and the Blob that it opens
//	sweep.go         Sweep
//
// Not for: what a blob means, names for blobs other than digests, and who may read or write them.
package blob
