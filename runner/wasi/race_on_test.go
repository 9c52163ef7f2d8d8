//go:build race

package wasi

const raceEnabled = true
