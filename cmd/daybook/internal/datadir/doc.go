// Package datadir finds out whose data a directory has, a single server's or a node's, and reads their log for the commands
// that work on a stopped server.
//
// Contract: Find changes nothing and locks nothing. Lock keeps servers away. The other methods expect that the caller holds it,
// apart from Check, which takes it.
package datadir
