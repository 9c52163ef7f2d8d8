package terminal

import (
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestUntilEnded: the process ends with the code of the command line, or of End if that is first.
func TestUntilEnded(t *testing.T) {
	testkit.Equal(t, UntilEnded(func() int { return ExitFile }), ExitFile, "exit code")
	never := make(chan int)
	testkit.Equal(t, UntilEnded(func() int {
		go End(ExitSignal)
		return <-never
	}), ExitSignal, "exit code")
}
