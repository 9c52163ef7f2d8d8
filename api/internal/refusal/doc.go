// Package refusal turns the errors of the engine, the store and the blobs into problem documents with stable codes. The
// server's requests over HTTP and in streams use the same table.
package refusal
