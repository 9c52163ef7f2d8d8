// Package files stores and reads files of any length at a server: Blobs, which have their digest as address, and Filesets,
// which are named, versioned trees of files whose contents are blobs. Client.Blobs and Client.Filesets of package client
// return them.
//
// An upload or a download continues where its connection broke. Each compares the digest of the bytes with the address, so a
// blob arrives whole or with an error. Package fileset has the manifests of filesets, and package directory writes them into
// directories.
package files
