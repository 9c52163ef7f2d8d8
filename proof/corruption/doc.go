// Package corruption damages the files of a server and checks how the server starts on them.
//
// # What it proves
//
// After damage in one place, a server either shows everything that it acknowledged, or it reports the damage with the
// file, the place and the next step. It never loses or alters anything silently. There is one exception, the window,
// described below.
//
// # What is damaged
//
// The test makes data directories (fixtures) in which the server carried out every kind of command, including cancels,
// sweeps and lost runners. So the journal has every kind of command, in several segments and volumes, and the store has
// every kind of row. The server that left a fixture was
//
//   - killed while it was idle;
//   - killed while it was idle, and its store then removed, so that only the journal is left;
//   - stopped cleanly;
//   - killed while it was idle, after the beginning of its journal had been cut;
//   - killed before a mark followed the last record.
//
// In each fixture, the test makes one of these changes at a time:
//
//   - flip a bit, for every bit of every file;
//   - cut a file at a byte, for every byte;
//   - write zeros over a sector of 512 bytes, or write the sector over the next one, for every sector;
//   - append zeros, garbage, or the file's own end;
//   - swap any two segments, or any two tables;
//   - delete a file or a volume.
//
// The journal of a killed server ends with the zero bytes that the server writes before the records that replace them.
// The fixtures have 600 of these bytes, and the test damages them, too.
//
// The test leaves out cases that an earlier fixture has in the same form: the store of the last fixture, and files of
// Pebble's options with the same bytes.
//
// # What may happen
//
// The test starts a server on the damaged files, reads everything, and checks the store. These verdicts pass:
//
//	intact           Everything shows as before: each job with its payload, status, outcome, attempts, claim, hops
//	                 and on_complete, and the queues, sweeps, sessions, handlers and filesets with their histories. This includes chained jobs,
//	                 jobs that lost runners held, and batches with attributes, in all statuses, with their metadata,
//	                 results and lists. The damage was in bytes that are not needed, or that a start rebuilds.
//	refused          The start fails. Its error names the file, the place in the file, and the next step. For the
//	                 store, whose files Pebble reads, it names the directory and quotes Pebble.
//	refused on read  The server starts. A read is answered with an error of that kind. All other reads are right.
//	window           The last records are missing, and so is everything that could prove that they existed.
//
// Every other result fails the test: something is lost or altered silently, an error does not help, or the server panics.
// A case without an answer within minutes also fails the test. It is reported as undecided, since the machine may be too
// slow. TestVerdicts shows that the test notices each of these results.
//
// # The window
//
// A later record proves an earlier one, and so does the store's cursor. Damage that removes the end of the last segment,
// or all of that segment, also removes the later records. The rest is a complete journal that ends earlier.
//
// The store flushes its cursor every five seconds and at each clean stop. So only records after the last flush can be
// missing, and after a clean stop there is no window. Within the window, the server notices a flipped bit, a damaged
// sector or garbage if intact bytes follow; the journal writes a mark after five idle milliseconds. It does not notice a
// cut that also removes the mark.
//
// # What it does not prove
//
//   - The test does not try two damages in one fixture, nor damage while the server runs.
//   - It does not try damage that a checksum of 32 bits misses. Checksums are not signatures: somebody who alters files
//     on purpose can make valid ones.
//   - It tests only a start. `daybook check` and `daybook journal verify` also read files that a start does not need.
package corruption
