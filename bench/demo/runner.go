package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/worker"
)

// work is a runner process: a Worker that computes a finding from each line until it is stopped. Then it prints the
// latencies of its claims.
func work(ctx context.Context, url string) error {
	var mu sync.Mutex
	var claims []time.Duration
	worker := worker.Worker{
		Client: client.New(url, client.Options{}), Types: []string{queueType}, Concurrency: 2, Batch: 400, Lease: 5 * time.Second,
		Wait: time.Second,
		Handler: func(_ context.Context, j *client.Job) (client.Outcome, error) {
			return client.JSONOutput(compute(j.Payload)), nil
		},
		OnEvent: func(e worker.Event) {
			if e.Jobs > 0 {
				mu.Lock()
				claims = append(claims, e.Took)
				mu.Unlock()
			}
		},
	}
	if err := worker.Run(ctx); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(claims)
}

// runner is a runner process.
type runner struct {
	cmd *exec.Cmd
	out io.ReadCloser
}

func startRunners(n int, url string) (runners []runner, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	for range n {
		r := runner{cmd: exec.Command(self, "--runner", url)}
		r.cmd.Stderr = os.Stderr
		if r.out, err = r.cmd.StdoutPipe(); err == nil {
			err = r.cmd.Start()
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("start runner: %w", err), stopRunners(runners, nil))
		}
		runners = append(runners, r)
	}
	return runners, nil
}

// stopRunners lets the runners drain, and adds their latencies to the account.
func stopRunners(runners []runner, a *account) (err error) {
	for _, r := range runners {
		err = errors.Join(err, r.cmd.Process.Signal(syscall.SIGTERM))
	}
	for _, r := range runners {
		var claims []time.Duration
		readErr := json.NewDecoder(r.out).Decode(&claims)
		if a != nil {
			a.claims = append(a.claims, claims...)
			err = errors.Join(err, readErr)
		}
		err = errors.Join(err, r.cmd.Wait())
	}
	return err
}
