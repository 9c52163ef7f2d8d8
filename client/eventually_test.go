package client

import (
	"testing"
	"time"
)

// Eventually waits until a condition holds that nothing signals. It fails the test if that takes minutes. It is a copy
// of internal/testkit.Eventually, which this module cannot import.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for begun := time.Now(); !holds(); time.Sleep(time.Millisecond) { // real time: for what has no signal
		if time.Since(begun) > 5*time.Minute { // real time: nothing takes as long
			t.Fatalf("not within minutes: %s", what)
		}
	}
}
