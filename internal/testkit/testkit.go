// Package testkit has what the tests of several packages need. The program does not import it.
package testkit

import (
	"testing"
	"time"
)

// patience is how long Eventually waits. It only has to be longer than anything takes on a machine that is busy.
const patience = 5 * time.Minute

// Eventually waits until a condition holds that nothing signals: what another process does, or a goroutine behind a
// connection. It fails the test if that takes minutes. Where there is a signal, a test waits for the signal, and where
// there is none but a clock, in a bubble of testing/synctest.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	pause := time.Millisecond
	for begun := time.Now(); !holds(); time.Sleep(pause) {
		if time.Since(begun) > patience {
			t.Fatalf("not within %v: %s", patience, what)
		}
		pause = min(pause+pause/8, 20*time.Millisecond) // a condition may take its time itself, such as one about all processes
	}
}

// OneByOne skips a test under the race detector. A long test says with it that it makes one call after another, so that the
// detector, with which it takes several times as long, has little to find. The lanes without the detector run it.
func OneByOne(t testing.TB) {
	t.Helper()
	if Race {
		t.Skip("it makes one call after another")
	}
}
