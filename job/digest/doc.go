// Package digest defines blob addresses: the digests of a blob's bytes, in every form in which they are written.
//
// Not for: storing blobs (package blob).
package digest
