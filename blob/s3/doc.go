// Package s3 stores blobs in a bucket of S3, or of a service with the same protocol.
//
// It is a blob.Backend. Package blob receives each upload into a local directory, and applies quotas and clients as for every
// backend. This package then copies the file to the bucket, and reads and lists the objects there. docs/016-blobs-in-s3.md
// has the reasons.
//
// # Contract
//
//   - Put returns nil after the service has verified the bytes and acknowledged them. The signature of each request has
//     the SHA-256 of its body, and the service compares the two. A longer blob is copied in parts of 64 MiB. The
//     service verifies each part, and joins the parts into one object at the end. No memory is needed for its bytes.
//   - Content.Range returns bytes of the version of an object that Open has seen. Package blob verifies them.
//   - Ages are measured by the clock of the service. Object.Now takes it from the last answer with status 2xx. Owned
//     takes it from the answer with the owner object, the only answer that a sweep trusts.
//   - One server uses a prefix. Open writes the owner object, and refuses a prefix that another server owns. A server
//     is recognized by its identity, which is in its journal. A collection first checks that this process is still the
//     owner.
//   - A request waits at most 30 s for the next byte, and is tried at most 4 times. A request that joins parts into an
//     object has 15 minutes for all tries. If the service does not answer, the error is blob.ErrUnavailable. If it
//     refuses, the error is also blob.ErrRefused.
//   - Credentials come from the environment, the shared credentials file or the role of the machine. They are never in
//     an address, an error, or a log.
//
// # Keys
//
//	PREFIX/owner.json             which server uses the prefix
//	PREFIX/blobs/sha256/<64 hex>  the blobs. The user metadata daybook-sha1 has the SHA-1
//	PREFIX/sha1/<40 hex>          "sha256:<64 hex>\n"
//	PREFIX/renewed/<64 hex>       empty. Its age counts from the last time that Missing reported the blob as present
//	PREFIX/clients/NAME/          blobs, sha1 and renewed of a client
//
// Blobs and SHA-1 entries have the names and the bytes of the files of blob.OpenDir, so a directory can be copied into a
// bucket.
//
// Not for: receiving blobs, digests, quotas, and deciding which blobs may be removed. Package blob does this.
package s3
