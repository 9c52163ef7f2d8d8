//go:build race

package store

// underRace is true with the race detector. Then pools drop a part of what is returned to them, so the number of
// allocated bytes says little.
const underRace = true
