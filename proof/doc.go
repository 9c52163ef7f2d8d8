// Package proof has the attacks on Daybook's promise: the server never loses anything that it has acknowledged. Each
// folder is one attack, or a tool for the attacks:
//
//	sim         plays whole servers in virtual time on a simulated disk; a seed decides what fails
//	corruption  damages every bit, byte, sector and file of a journal and a store, one at a time
//	crash       kills, freezes and cuts the power of the real binary, and fills its disk or makes it read-only
//	cluster     does the same to three servers that share one journal, and cuts their network
//	runners     kills runners, the processes that they start, and their server
//	hostile     opens connections that never read, never write, or send a byte a second, on every route
//	intruder    sends every request with wrong credentials, and with keys of other tenants
//	limits      fills a server to its limits in a memory cgroup of 1 GiB
//	powerfs     is a file system for power cuts: it knows which data was synced, and can lose the rest
//	stallfs     is a disk on which a store stalls, for tests of the server while Pebble blocks all commits
//	model       has the rules of the queue once more, as plainly as possible; sim and the tests of the store compare with it
//	report      writes the figures of a full run into docs/explanation/reliability.md
//
// # Where to start
//
// docs/explanation/reliability.md has the results. docs/explanation/guarantees.md names the tests of each promise. Each
// folder's doc.go says what its attack proves, how, and what it does not prove.
package proof
