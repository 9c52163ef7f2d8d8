// Command worker does the jobs of one type until SIGTERM or SIGINT: worker TYPE
//
// The work is to count the words of the payload. Replace countWords by your own work.
//
// This worker relies on the following:
//
//   - The server gives a job to one claim at a time, and takes it back if the lease ends. worker.Worker tickles the jobs
//     that it holds.
//   - A late worker cannot end a job that another worker has: worker.Worker names the claim in each report, and the
//     server refuses the report if the claim no longer holds the job. OnEvent is then called with ErrClaimLost or
//     ErrLeaseLost.
//   - A job may run more than once: if a worker is killed before its report, another worker does the job. So the work
//     must be safe to repeat. Write its effects so that a second run changes nothing, for example under the job's id.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/worker"
)

var (
	lease = milliseconds("LEASE_MS", 30_000) // how long the server waits for a tickle before it gives the jobs to another worker
	work  = milliseconds("WORK_MS", 0)       // makes the work slow, so that you can interrupt it
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: worker TYPE")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	w := &worker.Worker{
		Client:      client.New(cmp.Or(os.Getenv("DAYBOOK_SERVER"), "http://127.0.0.1:1717"), client.Options{}),
		Types:       os.Args[1:],
		Concurrency: 8,
		Lease:       lease,
		Handler:     countWords,
		// After SIGTERM, handlers may still run for this long. Then their contexts end, and the worker returns their jobs
		// to the queue. If the server is unreachable, the worker repeats reports for ReportTimeout.
		DrainTimeout:  10 * time.Second,
		ReportTimeout: 10 * time.Second,
		Logger:        logger,
		OnEvent: func(e worker.Event) {
			if e.Job != nil && e.Err != nil {
				logger.Warn("the outcome was not reported", "job", e.Job.ID, "error", e.Err)
			}
		},
	}
	// If the server is killed while it hands out jobs, these jobs run when their lease ends.
	//
	// Run claims many jobs at once, reports many outcomes in one request, and repeats requests while the server is
	// unreachable. It returns when ctx has ended and the worker no longer holds any job.
	if err := w.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		logger.Error("the worker has stopped", "error", err)
		os.Exit(1)
	}
}

var word = regexp.MustCompile(`[A-Za-z0-9]+`)

// countWords is the work. ctx ends when the worker no longer holds the job, or cannot be sure of it: another worker may
// have the job by then. After an error the job runs again when its backoff has passed, until its attempts are used up.
func countWords(ctx context.Context, j *client.Job) (client.Outcome, error) {
	select {
	case <-ctx.Done():
		return client.Outcome{}, context.Cause(ctx)
	case <-time.After(work):
	}
	words := len(word.FindAll(j.Payload, -1))
	if words == 0 {
		return client.Outcome{}, worker.Fail(errors.New("the line has no words")) // it can never succeed
	}
	output, err := json.Marshal(map[string]int{"words": words})
	if err != nil {
		return client.Outcome{}, err
	}
	return client.JSONOutput(output), nil
}

func milliseconds(variable string, otherwise int) time.Duration {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		otherwise = n
	}
	return time.Duration(otherwise) * time.Millisecond
}
