// Package machine is the state machine: it carries out one command after the other on the rows and the memory. Each command has a
// function, which Apply chooses. Lines change their state in one function only, move, which keeps all indexes and counters.
//
// Applying a command costs a bounded number of rows, whatever the backlog is; larger changes continue as sweeps, a step a tick.
package machine
