// Package remote sends the requests of commands to a server: it finds the address, checks that a Daybook server is there,
// prints documents and lists, and completes names for a shell.
//
// Contract: a command whose server does not answer fails with NoAnswerError, or says on standard error why it waits.
//
// Not for: the requests of package client, which it passes on.
package remote
