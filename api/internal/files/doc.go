// Package files has the routes of blobs, resumable uploads and filesets. A body is stored while it arrives, and a blob or an
// archive is sent while it is read, so neither is in memory as a whole.
//
// A fileset is a manifest, which is a blob that names other blobs. Only its name and its versions are commands of the
// engine.
//
// What must hold: a damaged blob never looks whole. The client gets a refusal, or fewer bytes than announced and the end
// of the connection.
package files
