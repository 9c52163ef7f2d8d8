package terminal

import "testing"

// TestUntilEnded: the process ends with the code of the command line, or of End if that is first.
func TestUntilEnded(t *testing.T) {
	if code := UntilEnded(func() int { return ExitFile }); code != ExitFile {
		t.Errorf("exit code %d", code)
	}
	never := make(chan int)
	if code := UntilEnded(func() int {
		go End(ExitSignal)
		return <-never
	}); code != ExitSignal {
		t.Errorf("exit code %d", code)
	}
}
