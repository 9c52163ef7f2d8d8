package main

import (
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestErrorsShown: jobs shows the exception of a traceback, and get all lines of it and a line for each attempt.
func TestErrorsShown(t *testing.T) {
	const traceback = "Traceback (most recent call last):\n  File \"x.py\", line 2, in handle\n    raise ValueError(\"bad\")\nValueError: bad\n"
	a := startAsked(t)
	id := a.do("create", "--max-attempts", "2", "--type", "t", "p")
	a.do("claim", "--runner-id", "r1")
	a.do("complete", id, "--code", "error", "--error", "first")
	a.do("run", id)
	a.do("claim", "--runner-id", "r2")
	a.do("complete", id, "--code", "failed", "--error", traceback)
	testkit.Contains(t, a.do("jobs"), "r2      ValueError: bad…")
	doc := a.do("get", id)
	testkit.Contains(t, doc, "\nerror         Traceback (most recent call last):\n                File \"x.py\", line 2, in handle\n",
		"\n              ValueError: bad\n", "  r1  error", "  first\n", "  r2  failed", "  ValueError: bad…\n")
	if attempts := doc[strings.Index(doc, "\nattempts"):]; strings.Index(attempts, "r1") > strings.Index(attempts, "\n   ") {
		t.Errorf("the first attempt is not in the line of its name:\n%s", attempts)
	}
}
