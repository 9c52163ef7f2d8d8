// Package lsm is what package store needs of an LSM tree beyond Pebble itself. It knows keys and values as bytes, and
// no jobs. Only the texts of its errors name the product, because an operator reads them.
//
// Pebble's own write-ahead log is off: a journal outside this package is the log. One goroutine writes, through an
// Overlay that keeps its writes until Commit applies them as one Pebble batch. Any goroutine reads what was committed,
// through a View of one moment.
//
// Failures of the database unwind by a panic with *Error, from Fail to the nearest Catch. The state machine reads in
// very many places, and none of them could continue; returning the error through each would hide what the code does.
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
