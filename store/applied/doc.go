// Package applied has the results of commands: a type for each command, which the applier hands to the goroutine that proposed the
// command. A command that is repeated returns the result of the first one.
package applied
