// Package fileset describes trees of files whose contents are blobs. A manifest lists the files: for each, its path, the
// address and size of its blob, and whether it is executable.
//
// # Contract
//
//   - A Manifest that Check accepts can be written into any directory of a Unix system without leaving that directory.
//   - Equal trees have equal manifests: Encode has one result for a tree, whatever the order of its files. So the address of
//     a manifest identifies the tree.
//   - Decode is strict. Check accepts every manifest that Decode returns, and Encode returns its canonical text.
//   - All sizes are bounded: see limits.go.
//
// # The text of a manifest
//
// A manifest is a JSON object without white space, with the members in this order:
//
//	{"format":1,
//	 "files":[{"path":"bin/run","blob":"sha256:<64 hex>","size":1234,"executable":true},
//	          {"path":"data/a.dat","blob":"sha256:<64 hex>","size":5}],
//	 "empty_directories":["out"]}
//
// Files and directories are sorted by the bytes of their paths. `executable` is left out if it is false, and
// `empty_directories` if there are none. A manifest leaves out owners, times and other permissions, because they differ
// between machines, and equal trees would have different manifests.
//
// # Files
//
//	errors.go    the errors
//	limits.go    the limits
//	address.go   addresses of blobs
//	path.go      the accepted paths
//	manifest.go  Manifest and File; Check
//	encoding.go  the JSON text of a manifest
//	pattern.go   patterns, and the part of a manifest that they select
//
// Not for: names and versions of filesets (package store), and storing blobs (package blob).
package fileset
