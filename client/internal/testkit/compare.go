package testkit

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// inContext returns a report with the context, which says which case it was, before it.
func inContext(context []any, text string) string {
	if len(context) > 0 {
		context = slices.Clone(context)
		for i, v := range context {
			if b, isBytes := v.([]byte); isBytes {
				context[i] = string(b)
			}
		}
		text = strings.TrimSuffix(fmt.Sprintln(context...), "\n") + ": " + text
	}
	return text
}

// difference returns the report of a failed comparison.
func difference(context []any, got, want any) string {
	return inContext(context, shown(got)+", want "+shown(want))
}

// shown returns the text of a value for a report: quoted, if it is a text.
func shown(v any) string {
	switch v.(type) {
	case string, []byte:
		return fmt.Sprintf("%q", v)
	}
	return fmt.Sprintf("%+v", v)
}

// Equal reports at the caller's line if got is not want, and lets the test continue. The context says which case it was.
func Equal[T comparable](t testing.TB, got, want T, context ...any) {
	if got != want {
		t.Helper()
		t.Error(difference(context, got, want))
	}
}

// MustEqual is Equal, and ends the test if got is not want. It is for values that the rest of the test needs.
func MustEqual[T comparable](t testing.TB, got, want T, context ...any) {
	if got != want {
		t.Helper()
		t.Fatal(difference(context, got, want))
	}
}

// EqualSlices is Equal for slices. It makes no difference between an empty slice and none.
func EqualSlices[S ~[]E, E comparable](t testing.TB, got, want S, context ...any) {
	if !slices.Equal(got, want) {
		t.Helper()
		t.Error(difference(context, []E(got), []E(want)))
	}
}

// DeepEqual is Equal for values of any type, compared as reflect.DeepEqual does.
func DeepEqual[T any](t testing.TB, got, want T, context ...any) {
	if !reflect.DeepEqual(got, want) {
		t.Helper()
		t.Error(difference(context, got, want))
	}
}

// Holds reports at the caller's line if a condition does not hold, and lets the test continue. It is for conditions besides
// equality. The context says which case it was, and has the values.
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

// Contains reports at the caller's line if a text lacks one of the parts, and lets the test continue.
func Contains(t testing.TB, text string, parts ...string) {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Helper()
			t.Errorf("%q is not in %q", part, text)
		}
	}
}

// Lacks reports at the caller's line if a text contains one of the parts, and lets the test continue.
func Lacks(t testing.TB, text string, parts ...string) {
	for _, part := range parts {
		if strings.Contains(text, part) {
			t.Helper()
			t.Errorf("%q is in %q", part, text)
		}
	}
}

// Failed reports at the caller's line if err is nil, or is not as wanted, and lets the test continue. A wanted error must be
// err, or be wrapped in it. A wanted text must be in the text of err.
func Failed(t testing.TB, err error, want ...any) {
	t.Helper()
	if err == nil {
		t.Errorf("there was no error; want %v", want)
		return
	}
	for _, w := range want {
		switch w := w.(type) {
		case error:
			if !errors.Is(err, w) {
				t.Errorf("the error is %q, not %q", err, w)
			}
		case string:
			if !strings.Contains(err.Error(), w) {
				t.Errorf("the error is %q, without %q", err, w)
			}
		default:
			t.Errorf("%#v is neither an error nor a text", w)
		}
	}
}

// Fails is Failed for a call that also returns a value.
func Fails[T any](_ T, err error) func(t testing.TB, want ...any) {
	return func(t testing.TB, want ...any) {
		t.Helper()
		Failed(t, err, want...)
	}
}

// Fails2 is Fails for a call with two values.
func Fails2[A, B any](_ A, _ B, err error) func(t testing.TB, want ...any) { return Fails(0, err) }
