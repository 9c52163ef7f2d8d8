// Package top shows the queues and figures of a server on a terminal, and refreshes them. A model has the state, which
// keys and time change; a view draws it; a source reads the figures.
//
// Not for: the flags of `daybook top`.
package top
