// Package corruption damages the files of a server and looks what the next start makes of it.
//
// # What is damaged
//
// Data directories in which one of everything was done, so that every kind of command is in the journal, in several
// segments and volumes, and every kind of row in the store, cancels and sweeps among them (fixture.go, work.go): killed
// when idle; the same with its journal alone; after a clean stop; with a journal whose beginning was cut; and killed
// before a mark followed the last record. In each, one thing at a time (damage.go): every bit of every file flipped,
// every file cut at every byte, every sector of 512 bytes zeroed or written over its successor, zeros or garbage or the
// file's own end appended, any two segments or tables swapped, every file and every volume deleted. What an earlier
// directory has with the same bytes in the same role is not tried twice.
//
// # What may come of it
//
// A server is started on it, everything is read, and the store checked (verdict.go):
//
//	intact           every job with its payload, status, outcome, attempts and claim, the queues, the sweeps and the sessions show as before: the damage was in what was not needed, or in what is rebuilt
//	refused          the start fails, and its error names the next step and the file with the place in it (of the store, whose files Pebble
//	                 reads, the directory and what Pebble says of the file)
//	refused on read  it starts, a read is answered with such an error, and everything else that is read is right
//	window           the last records are gone together with everything that could prove that they were there
//
// Anything else fails the test: something lost or altered in silence, an error that does not help, a panic. So does a
// case without an answer within minutes: it is reported as undecided, since a machine may be too slow. TestVerdicts
// shows that each would be noticed.
//
// # The window
//
// A record is proven by any later one, or by the store's cursor. Where damage takes the end of the last segment (or all
// of it), it takes the later ones as well, and what is left is a whole journal that ends earlier. The store flushes its
// cursor every five seconds and at each clean stop; records behind that may be missed by nobody. Within it a flipped
// bit, a sector or garbage is noticed as long as anything intact is behind it, a mark after five idle milliseconds; a
// cut that takes that too is not. After a clean stop there is no window.
//
// # What is not covered
//
// Two damages at once, damage while the server runs, damage that a checksum of 32 bits misses, or somebody who means
// it: checksums are no signatures. Start only: `daybook check` and `daybook journal verify` read what a start does not
// need.
package corruption
