package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/worker"
)

const (
	workers   = 4
	queueType = "checksum"
)

func main() {
	d := demo{out: os.Stdout}
	flag.IntVar(&d.posted, "lines", 1_000_000, "lines to post")
	flag.BoolVar(&d.cluster, "cluster", false, "three nodes instead of a single server")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := d.check()
	if err == nil {
		err = d.run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// demo are servers that are harmed while they work.
type demo struct {
	posted  int // lines
	cluster bool
	out     io.Writer

	servers
	client *client.Client // of all servers
	lines  lines
	stored atomic.Int64  // lines whose posts were answered
	begun  chan struct{} // receives once for each harm that begins
}

// minLines is how many lines keep the servers at work while they are harmed.
const minLines = 10_000

func (d *demo) check() error {
	if d.posted < minLines {
		return fmt.Errorf("-lines %d are fewer than %d, and completed before the servers could be harmed", d.posted, minLines)
	}
	return nil
}

func (d *demo) run(ctx context.Context) (err error) {
	binary, err := daybooktest.Binary()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "daybook-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	start := d.startServer
	if d.cluster {
		start = d.startNodes
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	if err := start(ctx, binary, dir); err != nil {
		return err
	}
	d.client, d.begun = client.New(d.urls(0), client.Options{}), make(chan struct{}, len(d.harms))
	fmt.Fprintf(d.out, "serving on %s with the data in %s\n", d.urls(0), dir)

	working, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	ended := make([]error, workers)
	for i := range ended {
		w := worker.Worker{
			Client: client.New(d.urls(i), client.Options{}), Types: []string{queueType}, Concurrency: 2, Batch: 400, Lease: 5 * time.Second, Wait: time.Second,
			Handler: func(_ context.Context, j *client.Job) (client.Outcome, error) {
				return client.TextOutput(string(checksum(j.Payload))), nil
			},
		}
		all.Go(func() { ended[i] = w.Run(working) })
	}
	began := time.Now()
	posting := make(chan error, 1)
	go func() { posting <- d.post(working) }()
	err = d.watch(ctx, posting)
	took := time.Since(began)
	stop()
	all.Wait()
	if err := errors.Join(append(ended, err)...); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "all lines are completed; reading every job back\n%d lines posted, each on disk before its answer\n", len(d.lines))
	err = d.account(ctx)
	fmt.Fprintf(d.out, "%s, under load\n%.0f jobs/s posted and completed, including the harm, with the load on the same machine\n", d.how, float64(d.posted)/took.Seconds())
	return err
}

// post posts all lines. The client repeats each post that a kill leaves without an answer. Its key makes the server store the lines
// only once.
func (d *demo) post(ctx context.Context) error {
	read, write := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := d.lines.write(ctx, &gate{write, ctx, d.begun, 0, d.posted/(len(d.harms)+1) + 1}, d.posted)
		write.CloseWithError(err) // nil ends the stream
		written <- err
	}()
	_, err := d.client.Add(ctx, read, client.AddOptions{
		Type: queueType, Key: client.NewKey(), BodyBytes: min(100<<10, d.posted), InFlight: 4,
		Acknowledged: func(b client.AddedBody) { d.stored.Add(int64(b.Count)) },
	})
	read.CloseWithError(err)
	return errors.Join(err, <-written)
}

// gate writes lines in parts: one before the first harm, and one when each harm begins. So all harm is done under load, however
// few lines there are.
type gate struct {
	io.Writer
	ctx       context.Context
	begun     <-chan struct{}
	lines, of int // of this part
}

func (g *gate) Write(line []byte) (int, error) {
	if g.lines == g.of {
		select {
		case <-g.begun:
		case <-g.ctx.Done():
			return 0, g.ctx.Err()
		}
		g.lines = 0
	}
	g.lines++
	return g.Writer.Write(line)
}

// progress is how far the lines are.
type progress struct{ stored, completed, unfinished int64 }

// done counts lines that were posted, and lines that were completed. So posting is half of the work.
func (p progress) done() int64 { return p.stored + p.completed }

func (d *demo) progress(ctx context.Context) (progress, error) {
	stats, err := d.client.Stats(ctx)
	if err != nil {
		return progress{}, err
	}
	return progress{d.stored.Load(), stats.Jobs["completed"], stats.Jobs["pending"] + stats.Jobs["active"] + stats.Jobs["deferred"]}, nil
}

// refresh is the time between two looks at the progress.
const refresh = 50 * time.Millisecond

// watch prints the progress, harms the servers after certain shares of the work, and returns when all lines are posted and
// completed.
func (d *demo) watch(ctx context.Context, posting <-chan error) error {
	jitter, begun, done := rand.Float64()/2, 0, false
	for shown := (time.Time{}); ; time.Sleep(refresh) {
		p, err := d.progress(ctx)
		if err != nil {
			return err
		}
		if time.Since(shown) > time.Second {
			fmt.Fprintf(d.out, "posted %9d   completed %9d   waiting or active %9d   harmed %d times\n", p.stored, p.completed, p.unfinished, begun)
			shown = time.Now()
		}
		if done && p.unfinished == 0 && begun == len(d.harms) {
			return nil
		}
		if share := float64(p.done()) / float64(2*d.posted); begun < len(d.harms) && share > (float64(begun)+0.3+jitter)/float64(len(d.harms)+1) { // the lines until then suffice for it
			begun++
			d.begun <- struct{}{}
			said, err := d.harms[begun-1](ctx)
			if err != nil {
				return fmt.Errorf("harm %d: %w", begun, err)
			}
			fmt.Fprintln(d.out, said)
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
