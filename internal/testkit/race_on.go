//go:build race

package testkit

// Race reports whether the race detector is on. A program then needs several times as much time and memory, and sync.Pool
// drops some of the returned objects, so tests must not judge sizes.
const Race = true
