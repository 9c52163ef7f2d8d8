// Package onlost runs a command or sends a request to a URL for each runner that was declared lost, with the document of
// the runner. The command can, for example, shut down the machine of the runner.
//
// Runners are handled one at a time. A try that takes too long is ended. A try that fails is repeated a few times. If many
// runners wait, further ones are given up. Each runner that is given up is logged and counted.
//
// Files:
//
//   - hook.go: the queue of lost runners, and the tries.
//   - group_unix.go, group_other.go: the processes of a command.
//   - command.go, request.go: a try with a command, and with a request.
package onlost
