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

// command is a line for sh -c. It gets the document on standard input, and the id in the environment variable
// DAYBOOK_RUNNER_ID. The line never contains a text from the runner.
type command string

// pipeTime is how long a command's children may keep its output open after it has ended or was killed.
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
	if err == nil || errors.Is(err, exec.ErrWaitDelay) { // the command succeeded, although a child kept its output open
		return nil
	}
	if text := output.String(); text != "" {
		return fmt.Errorf("the command failed: %w: %s", err, text)
	}
	return fmt.Errorf("the command failed: %w", err)
}
