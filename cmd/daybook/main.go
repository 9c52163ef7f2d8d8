package main

import "os"

// Set by the linker; see the Makefile.
var version, commit = "dev", "unknown"

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
