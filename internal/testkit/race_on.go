//go:build race

package testkit

// Race is true with the race detector. It takes several times as much time and memory, and pools drop a part of what is
// returned to them, so tests of sizes say little.
const Race = true
