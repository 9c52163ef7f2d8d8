//go:build race

package testkit

// Race is true with the race detector. A program then takes several times as much time and memory, and its pools drop some of
// the returned objects, so a test cannot judge sizes.
const Race = true
