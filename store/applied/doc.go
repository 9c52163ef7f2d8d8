// Package applied has the results of commands: a type for each command, which the applier hands to the goroutine that proposed the
// command. A repeated command returns the result of its first time.
package applied
