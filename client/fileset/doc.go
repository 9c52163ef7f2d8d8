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
// Not for: names and versions of filesets (package store), and storing blobs (package blob).
package fileset
