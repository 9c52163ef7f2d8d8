package testkit

import "testing"

// NoError fails the test at the caller's line if err is not nil. The context, if there is any, says which case it was.
func NoError(t testing.TB, err error, context ...any) {
	if err != nil {
		t.Helper() // not before, because benchmarks would measure it
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
// nil. Otherwise it returns the value:
//
//	text := testkit.Must(os.ReadFile(name))(t)
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
