// Package model has the rules of the queue once more, as plainly as possible: a row per job, and no spans, indexes, pages
// or caches. It follows docs/reference/api.md and knows nothing of the store. Every command walks over all jobs.
//
// The model takes the journal's commands (package job) and returns the results that callers get (package applied).
// Two tests compare a store with the model after each command: TestRandom of package store, with random commands and with
// sizes that make each command stop early; and TestSimulation of package sim, with the journal of a server that crashes.
// Package compare compares everything that a reader can see.
//
// # How much a command does
//
// A store bounds the work of each command. How far a tick, a sweep or a claim gets depends on its rows, which the model
// does not have. So Compare takes the moves that the store made (Seen), checks that the rules allow each of them in that
// order, and fails if none was made while work was left. Apply does all the work.
package model
