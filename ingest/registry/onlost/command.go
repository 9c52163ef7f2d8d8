package onlost

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// command is a line for sh -c. It gets the document on its standard input, and DAYBOOK_RUNNER_ID in its environment. The
// line itself never has a text of the runner in it.
type command string

// pipeTime is how long a command may hold its output open after its end, or after it was killed.
const pipeTime = 2 * time.Second

// try runs the command. When ctx is done, it kills the command and the processes of its group.
func (c command) try(ctx context.Context, id string, document []byte) error {
	var output said
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", string(c))
	cmd.Env = append(os.Environ(), "DAYBOOK_RUNNER_ID="+id)
	cmd.Stdin = bytes.NewReader(document)
	cmd.Stdout, cmd.Stderr = &output, &output
	inGroup(cmd)
	cmd.WaitDelay = pipeTime
	err := cmd.Run()
	if err == nil || errors.Is(err, exec.ErrWaitDelay) { // the command itself has succeeded
		return nil
	}
	if text := output.String(); text != "" {
		return fmt.Errorf("the command failed: %w: %s", err, text)
	}
	return fmt.Errorf("the command failed: %w", err)
}
