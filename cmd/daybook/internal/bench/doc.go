// Package bench starts the server that `daybook bench` measures, and prints the progress and the result.
//
// Not for: the measurement, which is in internal/load.
package bench
