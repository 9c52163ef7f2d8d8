package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job"
)

const (
	// watchPatience is how long a watch continues without an answer of the server.
	watchPatience = time.Hour
	// The intervals of the progress. The end of a job or batch is noticed at once in any case.
	watchEvery      = time.Second
	watchEveryNoTTY = 10 * time.Second
	minWatchEvery   = 100 * time.Millisecond
)

// notCompleted is the error for a job, batch or queue that has ended without completing.
type notCompleted struct{ what, status, reason string }

func (e *notCompleted) Error() string {
	return fmt.Sprintf("%s %s%s", e.what, hasEnded(e.status), because(e.reason))
}

func hasEnded(status string) string {
	if status == "cancelled" {
		return "was cancelled"
	}
	return "has " + status
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// The errors of --timeout and --wait-timeout.
var (
	errWatchTimeout = errors.New("it has not ended within --timeout")
	errWaitTimeout  = errors.New("it has not ended within --wait-timeout")
)

type watchFlags struct {
	remote.Command
	isBatch, isJob    bool
	timeout, interval config.DurationFlag
}

func newWatch() *cobra.Command {
	var f watchFlags
	cmd := &cobra.Command{
		Use:   "watch JOB|BATCH|CLIENT/TYPE",
		Short: "Wait for the end of a job, a batch or a queue",
		Long: `Show the progress of a job, a batch or a queue until it has ended: how many of its jobs have ended, how many end
per second, and how long the rest takes at that rate. On a terminal, the progress is a line that changes. Otherwise
a line is written to standard error every 10 seconds if something has changed. With --json, each change is a
document on standard output.

An id may be that of a batch and of its first job. The command then watches the batch if it has more than one job, or
attributes such as a name. --batch and --job say which is meant.

A queue has ended when no job of it is deferred, pending or active. Jobs of other queues that are created by its jobs
do not count. Of a queue, the jobs that the server keeps are counted: one that is purged or redriven between two looks
is not seen. Give such jobs a longer retention, or watch their batch.

The exit code is the outcome:

    0  the job or batch has completed; or no job of the queue has failed while it was watched
   15  the job or batch has failed; or a job of the queue has failed since the watch began
   16  the job or batch was cancelled
   17  --timeout has passed, and it has not ended
  130  Ctrl-C ended the command; it has no effect on the jobs

If the server stops answering after the command has begun, the command goes on for up to an hour.`,
		Example: `  daybook watch acme/resize
  daybook watch "$(daybook submit --type resize images.txt)" && echo all done
  daybook watch --timeout 10m --json 0185a1b2-c3d4-7000-8000-00000c800000`,
		Args: cobra.ExactArgs(1),
	}
	config.EncryptionFlag(cmd, &f.Command.Server)
	remote.Over(&f.Command, cmd, func(cmd *cobra.Command, args []string) error { return watch(cmd, &f, args[0]) })
	flags := cmd.Flags()
	flags.BoolVar(&f.isBatch, "batch", false, "the id is that of a batch")
	flags.BoolVar(&f.isJob, "job", false, "the id is that of a job")
	config.OptionalDuration(flags, &f.timeout, "timeout", "how long the command waits at most (default: no limit)")
	config.OptionalDuration(flags, &f.interval, "interval", "how often the progress is shown (default: 1s on a terminal and with --json, otherwise 10s)")
	remote.LinesFlag(cmd, &f.AsJSON, "document")
	cmd.MarkFlagsMutuallyExclusive("batch", "job")
	cmd.ValidArgsFunction = config.Once(watchable)
	return cmd
}

// watchable completes queues, batches and jobs that have not ended.
func watchable(cmd *cobra.Command, typed string) []string {
	list := append(remote.QueueNames(cmd, typed), remote.BatchIDs(cmd, typed)...)
	list = append(list, remote.JobIDs(job.Active, job.Pending, job.Deferred)(cmd, typed)...)
	return list[:min(len(list), remote.MaxCompletions)]
}

// watcher shows the progress of a job, batch or queue until it has ended.
type watcher struct {
	f     *watchFlags
	c     *client.Client // continues while the server is unreachable
	cmd   *cobra.Command
	line  *terminal.StatusLine
	every time.Duration
	last  string // the last progress that was shown
}

// progress is the state of the watched job, batch or queue.
type progress struct {
	text     string // for people
	document []byte // for --json
	ended    bool
	err      error // with ended: the outcome, if it is not completed
}

func watch(cmd *cobra.Command, f *watchFlags, target string) error {
	w := watcher{f: f, cmd: cmd, line: terminal.NewStatusLine(cmd.ErrOrStderr()), every: time.Duration(f.interval)}
	var q config.QueueName
	isQueue := strings.Contains(target, "/")
	var err error
	if isQueue && (f.isBatch || f.isJob) {
		err = terminal.Usagef("%q is a queue; --batch and --job are for ids", target)
	} else if isQueue {
		q, err = config.ParseQueue(target)
	} else {
		err = remote.CheckIDs(target)
	}
	if err == nil && f.interval != 0 && w.every < minWatchEvery {
		err = terminal.Usagef("--interval must be at least %s", minWatchEvery)
	}
	if err != nil {
		return err
	}
	if w.every == 0 {
		if w.every = watchEvery; !w.line.IsOn() && !f.AsJSON {
			w.every = watchEveryNoTTY
		}
	}
	whole := cmd.Context()
	ctx, stop := signal.NotifyContext(whole, os.Interrupt)
	defer stop()
	limited := ctx
	if f.timeout != 0 {
		var end context.CancelFunc
		limited, end = context.WithTimeout(ctx, time.Duration(f.timeout))
		defer end()
	}
	cmd.SetContext(limited) // --timeout bounds the first request, too
	if err = f.ConnectFor(cmd, watchPatience); err == nil {
		w.c = f.Client
		err = w.watch(limited, target, q)
	}
	w.line.Clear()
	switch {
	case ctx.Err() != nil && whole.Err() == nil:
		return terminal.SilentExit(terminal.ExitSignal + int(syscall.SIGINT))
	case limited.Err() != nil && ctx.Err() == nil:
		return fmt.Errorf("%s: %w", target, errWatchTimeout)
	}
	return err
}

// watch watches the queue, or if its name is empty, the batch or job with the id.
func (w *watcher) watch(ctx context.Context, id string, q config.QueueName) error {
	if q != (config.QueueName{}) {
		return w.queue(ctx, q)
	}
	isBatch, err := w.isBatch(ctx, id)
	if err == nil && isBatch {
		return w.batch(ctx, id)
	}
	if err == nil {
		err = w.job(ctx, id)
	}
	return err
}

// isBatch reports whether to watch an id as a batch.
func (w *watcher) isBatch(ctx context.Context, id string) (bool, error) {
	if parsed, err := job.ParseID(id); w.f.isBatch || w.f.isJob || err != nil || parsed.Line() != 0 {
		return w.f.isBatch, err
	}
	b, err := w.c.Batch(ctx, id)
	if errors.Is(err, client.ErrNotFound) {
		return false, nil
	}
	return b.Count != 1 || b.OnFailure != "", err
}

// show shows the progress if it has changed.
func (w *watcher) show(p progress) error {
	if w.f.AsJSON {
		if text := string(p.document); text != w.last {
			w.last = text
			return remote.WriteDocument(w.f.Out, p.document)
		}
		return nil
	}
	if w.line.IsOn() {
		w.line.Show(p.text)
	} else if p.text != w.last && !p.ended {
		fmt.Fprintln(w.cmd.ErrOrStderr(), terminal.PlainCell(p.text)) // a failed write does not matter: it only shows the progress
	}
	w.last = p.text
	if !p.ended {
		return nil
	}
	w.line.Clear()
	_, err := fmt.Fprintln(w.f.Out, terminal.PlainCell(p.text))
	return err
}

// until shows the progress again and again until the end. wait returns at the end of the watched job or batch, or with
// an error. If wait is nil, only look notices the end.
func (w *watcher) until(ctx context.Context, look func(context.Context) (progress, error), wait func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	if wait != nil {
		go func() { ended <- wait(ctx) }()
	}
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for {
		p, err := look(ctx)
		if err == nil {
			err = w.show(p)
		}
		if err == nil && p.ended {
			err = p.err
		}
		if err != nil || p.ended {
			return err
		}
		select {
		case err := <-ended:
			if err != nil {
				return err
			}
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// countsText returns the counts of jobs that are not 0.
func countsText(counts map[string]int64) string {
	var parts []string
	for _, s := range job.Statuses {
		if n := counts[s.String()]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	if len(parts) == 0 {
		return "no jobs"
	}
	return strings.Join(parts, ", ")
}

func (w *watcher) batch(ctx context.Context, id string) error {
	return w.until(ctx, func(ctx context.Context) (progress, error) {
		b, err := w.c.Batch(ctx, id)
		if err != nil {
			return progress{}, err
		}
		return batchProgress(&b), nil
	}, func(ctx context.Context) error {
		_, err := w.c.AwaitBatch(ctx, id)
		return err
	})
}

func batchProgress(b *client.Batch) (p progress) {
	p.document = b.Text
	if b.Ended() {
		p.ended = true
		p.text = fmt.Sprintf("batch %s %s: %s", b.ID, b.Status, countsText(b.Counts))
		if b.EndedAt > 0 {
			p.text += " in " + terminal.Interval(b.EndedAt-b.CreatedAt)
		}
		p.err = outcome("the batch "+b.ID, b.Status, b.Error)
		return p
	}
	n := b.Count - b.Counts["deferred"] - b.Counts["pending"] - b.Counts["active"]
	part := 0.0
	if b.Count > 0 {
		part = float64(n) / float64(b.Count)
	}
	p.text = fmt.Sprintf("%s %s %d of %d", terminal.Bar(part), terminal.Percent(part), n, b.Count)
	if b.Open {
		p.text += " so far"
	}
	if b.Status != "in_progress" {
		p.text += ", " + b.Status
	}
	if k := b.Counts["failed"]; k > 0 {
		p.text += fmt.Sprintf(", %d failed", k)
	}
	if b.Progress != nil {
		if b.Progress.PerSecond > 0 {
			p.text += fmt.Sprintf(", %.1f/s", b.Progress.PerSecond)
		}
		if b.Progress.EstimateMs != nil && !b.Open {
			p.text += fmt.Sprintf(", %s left", terminal.ShortTime(time.Duration(*b.Progress.EstimateMs)*time.Millisecond))
		}
	}
	return p
}

// outcome returns an error unless a job or batch has completed.
func outcome(what, status, reason string) error {
	if status == "completed" {
		return nil
	}
	return &notCompleted{what, status, reason}
}

func (w *watcher) job(ctx context.Context, id string) error {
	return w.until(ctx, func(ctx context.Context) (progress, error) {
		j, err := w.c.Job(ctx, id)
		if err != nil && !errors.Is(err, client.ErrUndecodable) { // its status is readable
			return progress{}, err
		}
		return jobProgress(j, time.Now()), nil
	}, func(ctx context.Context) error { return awaitEnd(ctx, w.c, id) })
}

// awaitEnd waits until a job has ended.
func awaitEnd(ctx context.Context, c *client.Client, id string) error {
	for {
		_, err := c.Output(ctx, id, time.Minute)
		if errors.Is(err, client.ErrUndecodable) {
			return nil
		}
		if !errors.Is(err, client.ErrConflict) || ctx.Err() != nil {
			return err
		}
	}
}

func jobProgress(j *client.Job, now time.Time) progress {
	p := progress{document: j.Text, ended: slices.Contains([]string{"completed", "failed", "cancelled"}, j.Status), text: fmt.Sprintf("job %s %s", j.ID, j.Status)}
	switch {
	case p.ended:
		p.err = outcome("the job "+j.ID, j.Status, j.Error)
	case j.Status == job.Deferred.String():
		p.text += " until " + terminal.Moment(j.RunAt)
	case len(j.Attempts) > 0:
		p.text += fmt.Sprintf(", attempt %d of %d", len(j.Attempts), j.MaxAttempts)
	}
	if !p.ended && j.Error != "" {
		p.text += "; last error: " + j.Error
	}
	return p
}

// queueWatch records the changes of a queue since the watch began.
type queueWatch struct {
	began, last time.Time
	ended       int64 // jobs that have ended since then; a purge may hide some
	failed      int64
	counts      map[string]int64 // of the last look; nil before the first
}

func (w *watcher) queue(ctx context.Context, q config.QueueName) error {
	var s queueWatch
	return w.until(ctx, func(ctx context.Context) (progress, error) {
		doc, err := w.c.Queue(ctx, q.Client, q.Type)
		if err != nil {
			return progress{}, err
		}
		return s.look(q, &doc, time.Now()), nil
	}, nil)
}

// look adds a document of the queue, and returns the progress.
func (s *queueWatch) look(q config.QueueName, doc *client.Queue, now time.Time) (p progress) {
	p.document = doc.Text
	if s.counts == nil {
		s.began = now
	} else {
		for _, status := range []string{"completed", "failed", "cancelled"} {
			more := max(doc.Counts[status]-s.counts[status], 0)
			s.ended += more
			if status == "failed" {
				s.failed += more
			}
		}
	}
	s.counts, s.last = doc.Counts, now
	rest := doc.Counts["deferred"] + doc.Counts["pending"] + doc.Counts["active"]
	if rest == 0 {
		p.ended = true
		p.text = fmt.Sprintf("queue %s has no unfinished jobs: %d ended, %d of them failed, in %s", q, s.ended, s.failed, terminal.ShortTime(now.Sub(s.began)))
		if s.failed > 0 {
			p.err = &notCompleted{fmt.Sprintf("the queue %s", q), "failed", fmt.Sprintf("%d jobs failed while it was watched", s.failed)}
		}
		return p
	}
	part := float64(s.ended) / float64(s.ended+rest)
	p.text = fmt.Sprintf("%s %s %s", terminal.Bar(part), terminal.Percent(part), countsText(map[string]int64{
		"deferred": doc.Counts["deferred"], "pending": doc.Counts["pending"], "active": doc.Counts["active"],
	}))
	if s.failed > 0 {
		p.text += fmt.Sprintf(", %d failed", s.failed)
	}
	if doc.Paused {
		p.text += ", paused"
	}
	if seconds := now.Sub(s.began).Seconds(); seconds > 0 && s.ended > 0 {
		rate := float64(s.ended) / seconds
		p.text += fmt.Sprintf(", %.1f/s", rate)
		if left := terminal.Remaining(float64(rest), rate); left != "" {
			p.text += ", " + left + " left"
		}
	}
	return p
}
