// Package testkit has helpers for the tests of this module. They are copies from internal/testkit of the server's module,
// which this module must not require.
package testkit

import (
	"testing"
	"time"
)

// NoError fails the test at the caller's line if err is not nil. The context, if there is any, says which case it was.
func NoError(t testing.TB, err error, context ...any) {
	if err != nil {
		t.Helper()
		t.Fatal(inContext(context, err.Error()))
	}
}

// Check reports err at the caller's line if it is not nil, and lets the test continue. It is for cleanups, and for
// goroutines besides the test's, which must not call Fatal.
func Check(t testing.TB, err error, context ...any) {
	if err != nil {
		t.Helper()
		t.Error(inContext(context, err.Error()))
	}
}

// Must takes the results of a call. The function that it returns fails the test at the caller's line if the error is not
// nil. Otherwise it returns the value.
func Must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
		return value
	}
}

// Must2 is Must for a call with two values.
func Must2[A, B any](a A, b B, err error) func(testing.TB) (A, B) {
	return func(t testing.TB) (A, B) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
		return a, b
	}
}

// Eventually waits until a condition holds that nothing signals. It fails the test if that takes minutes.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for begun := time.Now(); !holds(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > 5*time.Minute {
			t.Fatalf("not within minutes: %s", what)
		}
	}
}
