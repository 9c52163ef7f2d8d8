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
// Not for: what keys and values mean.
package lsm
