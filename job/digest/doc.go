// Package digest has the addresses of blobs: the digests of their bytes, in all forms in which they are written.
//
// Not for: storing blobs (package blob).
package digest
