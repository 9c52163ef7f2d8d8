// Command daybook is a durable job queue: the server, and commands for it. `daybook help` lists the commands.
//
// To add a command, write a file for it, a line in commandGroups, and a test; then write its golden files and
// its page with `go test ./cmd/daybook -run TestCLI -rewrite-cli`.
package main
