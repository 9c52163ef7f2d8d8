package guest

import (
	"errors"
	"fmt"
	"os"
)

func init() {
	if _, is := os.LookupEnv(Variable); !is {
		return
	}
	// Package initialization is locked to the first thread of the process, which makes every switch of goroutines slow.
	// Work in another goroutine.
	ended := make(chan error)
	go func() { ended <- start(os.Args) }()
	if err := <-ended; err != nil {
		fmt.Fprintln(os.Stderr, err)
		if errors.Is(err, errMachine) {
			os.Exit(ExitMachine)
		}
		os.Exit(2)
	}
	os.Exit(0)
}

// start runs the process, in the mode of its first argument.
func start(args []string) error {
	switch {
	case len(args) == 4 && args[1] == ModeRun:
		return serve(args[2], args[3])
	case len(args) == 4 && args[1] == ModeCompile:
		return compile(args[2], args[3])
	}
	return fmt.Errorf("this environment variable is set by daybook for processes of its own: %s", Variable)
}
