// Package lsm adds to Pebble the parts of an LSM tree that package store needs. It handles keys and values as bytes and
// knows nothing of jobs. Only the texts of its errors name the product, because an operator reads them.
//
// Pebble's own write-ahead log is off, because a journal outside this package is the log. One goroutine writes. It
// writes to an Overlay, which keeps the writes until Commit applies them as one Pebble batch. Any goroutine may read
// committed rows through a View, which shows the database at one moment.
//
// A failure of the database panics with *Error: Fail panics, and the nearest Catch recovers. The state machine reads in
// a great many places and could not continue in any of them, so returning the error through each would hide what the
// code does.
//
// The files, each of which uses only those before it:
//
//	failure.go   Error, ErrDamaged, and the panics that carry them: Fail, Contradict, Catch, Try
//	codec.go     varints and texts of values: Encoder, Decoder
//	key.go       numbers in keys that sort by them: KeyBuilder, After
//	cache.go     caches of rows in two generations: Recent, RecentOrdered
//	marker.go    a file system that syncs the directory before Pebble's marker files change; damaged manifests
//	gate.go      lets Close wait for readers
//	view.go      Rows, and View: one moment of the database through one iterator
//	database.go  DB: open, commit, flush, checkpoint, close, peek
//	snapshot.go  Snapshot: an iterator for each table, side by side
//	overlay.go   Overlay: writes since the last commit, over the database
//	window.go    Window: the first live keys of a range, kept in memory; Gap: where deleted keys are in its middle
//
// Not for: what keys and values mean.
package lsm
