//go:build !unix

package onlost

import "os/exec"

// inGroup does nothing, because this system lacks process groups.
func inGroup(*exec.Cmd) {}
