//go:build race

package store

// underRace: with the race detector, pools drop a part of what is given back, so that the bytes allocated say little.
const underRace = true
