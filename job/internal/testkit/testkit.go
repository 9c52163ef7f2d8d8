// Package testkit has helpers for the tests of this module. They are copies from internal/testkit of the server's module,
// which this module must not require. Each reports at the caller's line. A context says which case it was.
package testkit

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// inContext returns a report with the context before it.
func inContext(context []any, text string) string {
	return strings.TrimPrefix(strings.TrimSpace(fmt.Sprintln(context...))+": "+text, ": ")
}

// difference returns the report of a failed comparison, with texts quoted.
func difference(context []any, got, want any) string {
	verb := "%+v, want %+v"
	_, named := got.(fmt.Stringer)
	if _, isBytes := got.([]byte); isBytes || !named && reflect.ValueOf(got).Kind() == reflect.String {
		verb = "%q, want %q"
	}
	return inContext(context, fmt.Sprintf(verb, got, want))
}

// Equal reports if got is not want, and lets the test continue.
func Equal[T comparable](t testing.TB, got, want T, context ...any) {
	if got != want {
		t.Helper()
		t.Error(difference(context, got, want))
	}
}

// MustEqual is Equal, and ends the test if got is not want.
func MustEqual[T comparable](t testing.TB, got, want T, context ...any) {
	if got != want {
		t.Helper()
		t.Fatal(difference(context, got, want))
	}
}

// DeepEqual is Equal for values of any type, compared as reflect.DeepEqual does.
func DeepEqual[T any](t testing.TB, got, want T, context ...any) {
	if !reflect.DeepEqual(got, want) {
		t.Helper()
		t.Error(difference(context, got, want))
	}
}

// Holds reports if a condition does not hold, and lets the test continue. The context has the values.
func Holds(t testing.TB, condition bool, context ...any) {
	if !condition {
		t.Helper()
		t.Error(inContext(context, "not as wanted"))
	}
}

// MustHold is Holds, and ends the test if the condition does not hold.
func MustHold(t testing.TB, condition bool, context ...any) {
	if !condition {
		t.Helper()
		t.Fatal(inContext(context, "not as wanted"))
	}
}

// NoError ends the test if err is not nil.
func NoError(t testing.TB, err error, context ...any) {
	if err != nil {
		t.Helper()
		t.Fatal(inContext(context, err.Error()))
	}
}

// Must takes the results of a call. The function that it returns ends the test if the error is not nil. Otherwise it
// returns the value.
func Must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		NoError(t, err)
		return value
	}
}

// Must2 is Must for a call with two values.
func Must2[A, B any](a A, b B, err error) func(testing.TB) (A, B) {
	return func(t testing.TB) (A, B) {
		t.Helper()
		NoError(t, err)
		return a, b
	}
}

// Failed reports if err is nil, or is not as wanted, which is an error that it wraps, or a part of its text.
func Failed(t testing.TB, err error, want ...any) {
	for _, w := range append(want, "") {
		is, isError := w.(error)
		if err == nil || isError && !errors.Is(err, is) || !isError && !strings.Contains(err.Error(), w.(string)) {
			t.Helper()
			t.Errorf("the error is %v, want %v", err, want)
		}
	}
}

// Fails is Failed for a call that also returns a value.
func Fails[T any](_ T, err error) func(t testing.TB, want ...any) {
	return func(t testing.TB, want ...any) { t.Helper(); Failed(t, err, want...) }
}
