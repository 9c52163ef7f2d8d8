// Package testkit has helpers that the tests of several packages share. The program does not import it.
package testkit

import (
	"testing"
	"time"
)

// patience is how long Eventually waits. It only has to be longer than anything takes on a busy machine.
const patience = 5 * time.Minute

// Eventually waits until a condition holds. It is for conditions that nothing signals, such as an action of another
// process, or of a goroutine at the far end of a connection. It fails the test after minutes. If there is a signal, wait
// for the signal instead. If only time matters, use a bubble of testing/synctest.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	pause := time.Millisecond
	for begun := time.Now(); !holds(); time.Sleep(pause) {
		if time.Since(begun) > patience {
			t.Fatalf("undecided, the machine is too slow or it never happens: not within %v: %s", patience, what)
		}
		pause = min(pause+pause/8, 20*time.Millisecond) // the condition may be slow itself, for example if it reads all processes
	}
}

// OneByOne skips a test under the race detector. A test calls it if it is long and makes one call after the other: the
// detector takes several times as long, and has little to find. The lanes without the detector run the test.
func OneByOne(t testing.TB) {
	t.Helper()
	if Race {
		t.Skip("it makes one call after another")
	}
}
