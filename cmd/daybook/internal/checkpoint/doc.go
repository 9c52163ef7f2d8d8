// Package checkpoint has the files with which a command continues after it was killed: the state of `daybook add
// --resume`, and the notes of `daybook blob put`.
//
// Contract: a line is on disk before the command relies on it. A lock keeps other processes out.
package checkpoint
