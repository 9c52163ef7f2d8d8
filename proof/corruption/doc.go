// Package corruption damages the files of a server and checks what the next start makes of them.
//
// # What it proves
//
// After damage in one place, a server either shows everything that it acknowledged, or it reports the damage with the
// file, the place and the next step. It never loses or alters anything silently. There is one exception, the window,
// which is described below.
//
// # What is damaged
//
// The test makes data directories (fixtures) in which every kind of command was carried out, cancels, sweeps and lost
// runners among them. So every kind of command is in the journal, in several segments and volumes, and every kind of
// row is in the store. The fixtures are left by a server that was
//
//   - killed while it was idle;
//   - killed while it was idle, with its journal only (the store is removed);
//   - stopped cleanly;
//   - killed while it was idle, after the beginning of its journal had been cut;
//   - killed before a mark followed the last record.
//
// In each fixture, the test does one of these things at a time:
//
//   - flips a bit, for every bit of every file;
//   - cuts a file at a byte, for every byte;
//   - writes zeros over a sector of 512 bytes, or writes the sector over the next one, for every sector;
//   - appends zeros, garbage, or the file's own end;
//   - swaps any two segments, or any two tables;
//   - deletes a file or a volume.
//
// The journal of a killed server ends with the zero bytes that the server writes before the records that replace them. The
// fixtures have 600 of them, and these are damaged too.
//
// Cases that repeat those of an earlier fixture are left out: the store of the last fixture, and files of Pebble's
// options with the same bytes.
//
// # What may happen
//
// The test starts a server on the damaged files, reads everything, and checks the store. These verdicts pass:
//
//	intact           Everything shows as before: each job with its payload, status, outcome, attempts, claim, hops
//	                 and on_complete, and the queues, sweeps, sessions, handlers and filesets. Chained jobs are among them, and
//	                 jobs that lost runners held. Batches with attributes are among them too, in all statuses, with their
//	                 metadata, results and lists. The damage was in bytes that are not needed, or that a start
//	                 rebuilds.
//	refused          The start fails. Its error names the file, the place in the file, and the next step. For the
//	                 store, whose files Pebble reads, it names the directory and quotes Pebble.
//	refused on read  The server starts. A read is answered with an error of that kind. All other reads are right.
//	window           The last records are missing, and so is everything that could prove that they existed.
//
// Every other result fails the test: something is lost or altered silently, an error does not help, or the server
// panics. A case that has no answer within minutes fails the test too. It is reported as undecided, since the machine
// may be too slow. TestVerdicts shows that the test notices each of these.
//
// # The window
//
// A later record proves an earlier one, and so does the store's cursor. Damage that removes the end of the last
// segment, or all of that segment, also removes the later records. What is left is a whole journal that ends earlier.
//
// The store flushes its cursor every five seconds and at each clean stop. So only records after the last flush can be
// missing, and after a clean stop there is no window. Within the window, a flipped bit, a damaged sector or garbage is
// noticed if anything intact follows it; the journal writes a mark after five idle milliseconds. A cut that also
// removes the mark is not noticed.
//
// # What it does not prove
//
//   - Two damages at once, and damage while the server runs, are not tried.
//   - Damage that a checksum of 32 bits misses is not tried. Checksums are not signatures: somebody who alters files on
//     purpose can make valid ones.
//   - Only a start is tested. `daybook check` and `daybook journal verify` also read what a start does not need.
//
// # Files
//
//	fixture.go          the fixtures: data directories as a server left them, and what its users knew
//	work.go             the commands that a server carries out to make a fixture
//	state.go            everything that a user can see of a server
//	damage.go           all damages, and which records each one may hide
//	verdict.go          starting a server on damaged files, and judging the result
//	corruption_test.go  TestMatrix, and the tests of the matrix itself
package corruption
