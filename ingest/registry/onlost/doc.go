// Package onlost runs a command, or sends a request to a URL, for each runner that is declared lost. The command or
// request gets the runner's document. It can, for example, shut down the runner's machine.
//
// Runners are handled one at a time. A try that takes too long is ended. A failed try is repeated a few times. If too
// many runners are waiting, further runners are given up. Each runner that is given up is logged and counted.
package onlost
