package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/worker"
)

const (
	posted, workers, kills = 1_000_000, 4, 3
	queueType              = "checksum"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// demo is a server that is killed while it works.
type demo struct {
	server *daybooktest.Process
	client *client.Client
	lines  lines
	stored atomic.Int64 // lines whose posts were answered
}

func run(ctx context.Context) (err error) {
	binary, err := daybooktest.Binary()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "daybook-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d := &demo{server: &daybooktest.Process{Binary: binary, Data: filepath.Join(dir, "data"), Log: os.Stderr, Args: []string{"--log-level", "error"}}}
	if err := d.server.Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.server.Stop()) }()
	d.client = client.New(d.server.URL(), client.Options{})
	fmt.Printf("serving on %s with the data in %s\n", d.server.URL(), d.server.Data)

	working, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	ended := make([]error, workers)
	for i := range ended {
		w := worker.Worker{
			Client: client.New(d.server.URL(), client.Options{}), Types: []string{queueType}, Concurrency: 2, Batch: 400, Lease: 5 * time.Second, Wait: time.Second,
			Handler: func(_ context.Context, j *client.Job) (client.Outcome, error) {
				return client.TextOutput(string(checksum(j.Payload))), nil
			},
		}
		all.Go(func() { ended[i] = w.Run(working) })
	}
	began := time.Now()
	posting := make(chan error, 1)
	go func() { posting <- d.post(ctx) }()
	err = d.watch(ctx, posting)
	took := time.Since(began)
	stop()
	all.Wait()
	if err := errors.Join(append(ended, err)...); err != nil {
		return err
	}
	fmt.Println("all lines are completed; reading every job back")
	a, err := d.lines.check(ctx, d.client)
	fmt.Printf("%d lines posted, each on disk before its answer\n%d completed, %d of them in more than one run\n%d lost, doubled or wrong\n%d kills with SIGKILL, under load\n"+
		"%.0f jobs/s posted and completed, including the kills, with the load on the same machine\n", len(d.lines), a.completed, a.rerun, len(a.problems), kills, posted/took.Seconds())
	return err
}

// post posts all lines. The client repeats each post that a kill leaves without an answer. Its key makes the server store the lines
// only once.
func (d *demo) post(ctx context.Context) error {
	read, write := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := d.lines.write(ctx, write, posted)
		write.CloseWithError(err) // nil ends the stream
		written <- err
	}()
	_, err := d.client.Add(ctx, read, client.AddOptions{
		Type: queueType, Key: client.NewKey(), BodyBytes: 100 << 10, InFlight: 4,
		Acknowledged: func(b client.AddedBody) { d.stored.Add(int64(b.Count)) },
	})
	read.CloseWithError(err)
	return errors.Join(err, <-written)
}

// watch prints the progress, kills the server after certain shares of the work, and returns when all lines are posted and completed.
func (d *demo) watch(ctx context.Context, posting <-chan error) error {
	jitter, killed, done := rand.Float64()/(kills+1), 0, false
	for shown := (time.Time{}); ; time.Sleep(50 * time.Millisecond) {
		stats, err := d.client.Stats(ctx)
		if err != nil {
			return err
		}
		completed, unfinished := stats.Jobs["completed"], stats.Jobs["pending"]+stats.Jobs["active"]+stats.Jobs["deferred"]
		if time.Since(shown) > time.Second {
			fmt.Printf("posted %9d   completed %9d   waiting or active %9d   kills %d\n", d.stored.Load(), completed, unfinished, killed)
			shown = time.Now()
		}
		if done && unfinished == 0 && killed == kills {
			return nil
		}
		// Posting counts as half of the work, so that the first kills happen while lines are posted.
		if share := float64(d.stored.Load()+completed) / (2 * posted); killed < kills && share > (float64(killed)+0.3+jitter)/kills {
			killed++
			pid, began := d.server.Pid(), time.Now()
			if err := errors.Join(d.server.Kill(), d.server.Start(ctx)); err != nil {
				return fmt.Errorf("kill %d: %w", killed, err)
			}
			fmt.Printf("kill -9 %d: restarted, replayed and ready after %v\n", pid, time.Since(began).Round(time.Millisecond))
		}
		select {
		case err := <-posting:
			if done = true; err != nil {
				return err
			}
		default:
		}
	}
}
