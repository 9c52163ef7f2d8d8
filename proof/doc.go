// Package proof holds the attacks on Daybook's promise, that nothing acknowledged is ever lost. Each folder is one:
//
//	sim         a whole server on a virtual clock and a simulated disk, by seed
//	corruption  every bit, byte, sector and file of a journal and a store, damaged
//	crash       the real binary: killed, stopped, on full and read-only disks, and through power cuts
//	hostile     clients that never read, never write, or send a byte a second, on every route
//	powerfs     the file system for power cuts: it knows what was synced and can lose the rest
//	busy        keeps a machine busy, so that tests can be run on one that is
//	report      puts the figures of a full run into docs/reliability.md
//
// docs/reliability.md is what a reader looks at first; docs/guarantees.md leads from each promise to its tests.
package proof
