package main

import (
	"os"

	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
)

// Set by the linker; see the Makefile.
var version, commit = "dev", "unknown"

func main() {
	os.Exit(terminal.UntilEnded(func() int { return run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr) }))
}
