// Package row is the form of the state on disk: the keys of all tables, and the rows under them, in both directions. A row that does
// not decode is an error of the kind ErrDamaged. The key space is listed in the documentation of package store.
//
// Not for: reading and writing (package lsm), deciding (package machine).
package row
