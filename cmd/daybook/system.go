package main

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// serverSystems are the operating systems on which the server runs. Other systems only have the commands that send
// requests to a server. The server needs locks of directories, and files that can be renamed while they are open.
var serverSystems = []string{"linux", "darwin"}

// dataCommands are the commands that run a server or read its data directory.
var dataCommands = []string{"serve", "check", "rebuild", "journal", "restore"}

// system is the operating system. A test replaces it.
var system = runtime.GOOS

// errSystem means that a command does not run on this operating system.
var errSystem = errors.New("the server and its data directory need Linux or macOS")

// checkSystem returns errSystem if the server does not run on this operating system and the command needs it.
func checkSystem(cmd *cobra.Command) error {
	names := strings.Fields(cmd.CommandPath())
	if len(names) < 2 || !slices.Contains(dataCommands, names[1]) {
		return nil
	}
	return checkServerSystem(cmd)
}

// checkServerSystem returns errSystem if the server does not run on this operating system.
func checkServerSystem(cmd *cobra.Command) error {
	if slices.Contains(serverSystems, system) {
		return nil
	}
	return fmt.Errorf("%s does not run on %s: %w", cmd.CommandPath(), system, errSystem)
}
