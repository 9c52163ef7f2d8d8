package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/daybookq/daybook/client"
)

// splitLines calls visit with n lines at a time, and with the number of the first.
func splitLines(r io.Reader, n int, visit func(first int, lines []byte) error) error {
	in := bufio.NewReaderSize(r, 1<<20)
	var lines []byte
	for number := 0; ; {
		line, err := in.ReadSlice('\n')
		if err != nil && err != io.EOF {
			return err
		}
		lines = append(lines, line...)
		if len(line) > 0 {
			number++
		}
		if end := err == io.EOF; len(lines) > 0 && (end || number%n == 0) {
			if err := visit((number-1)/n*n, lines); err != nil {
				return err
			}
			lines = nil
		}
		if err == io.EOF {
			return nil
		}
	}
}

// account is the result of the demo for every line.
type account struct {
	sums    [][8]byte // of each line, by its number
	files   int
	took    time.Duration
	runners int
	kills   int
	again   int64 // lines posted again because a kill lost the answer
	posts   []time.Duration
	claims  []time.Duration

	mu        sync.Mutex
	completed int
	rerun     int
	lost      int
	wrong     int
	waits     []time.Duration // from created to completed
	problems  []string        // the first lost or wrong jobs
}

// audit reads every acknowledged job and compares it with its line.
func (s *demo) audit(ctx context.Context, a *account) error {
	accounted := 0
	for _, r := range s.receipts {
		accounted += r.count
	}
	if accounted != len(a.sums) {
		return fmt.Errorf("%d lines were posted, and %d were acknowledged", len(a.sums), accounted)
	}
	work := make(chan receipt)
	errs := make(chan error, 32)
	for range cap(errs) {
		go func() {
			var err error
			for r := range work {
				for line := 0; line < r.count && err == nil; line++ {
					err = a.checkJob(ctx, s.client, r.id.WithLine(line).String(), r.first+line)
				}
			}
			errs <- err
		}()
	}
	for i, r := range s.receipts {
		work <- r
		if i%100 == 99 {
			fmt.Printf("read back %9d\n", (i+1)*linesPerPost)
		}
	}
	close(work)
	var err error
	for range cap(errs) {
		err = errors.Join(err, <-errs)
	}
	return err
}

// checkJob compares one job with the line of its number.
func (a *account) checkJob(ctx context.Context, c *client.Client, id string, line int) error {
	doc, err := c.Job(ctx, id)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case errors.Is(err, client.ErrNotFound):
		a.lost++
		a.report("line %d, job %s: it is gone", line, id)
		return nil
	case err != nil:
		return err
	}
	if doc.RunAttempts > 1 {
		a.rerun++
	}
	switch {
	case doc.Status != "completed":
		a.lost++
		a.report("line %d, job %s: it is %s", line, id, doc.Status)
	case number(doc.Payload) != line || sum(doc.Payload) != a.sums[line]:
		a.wrong++
		a.report("line %d, job %s: its payload is %q", line, id, doc.Payload)
	case string(doc.Output) != string(compute(doc.Payload)):
		a.wrong++
		a.report("line %d, job %s: its output is %s", line, id, doc.Output)
	default:
		a.completed++
		a.waits = append(a.waits, time.Duration(doc.CompletedAt-doc.CreatedAt)*time.Millisecond)
	}
	return nil
}

func (a *account) report(format string, args ...any) {
	if len(a.problems) < 10 {
		a.problems = append(a.problems, fmt.Sprintf(format, args...))
	}
}

func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(int(q*float64(len(all))), len(all)-1)].Round(10 * time.Microsecond)
}

func (a *account) print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	row := func(what, format string, args ...any) {
		fmt.Fprintf(t, "%s\t"+format+"\n", append([]any{what}, args...)...)
	}
	fmt.Fprintln(t)
	row("posted", "%d lines of %d files, each post on disk before its answer", len(a.sums), a.files)
	row("completed", "%d", a.completed)
	row("run more than once", "%d", a.rerun)
	row("lost", "%d", a.lost)
	row("wrong", "%d", a.wrong)
	row("posted again", "%d lines, since a kill lost the answer", a.again)
	row("kills", "%d with SIGKILL, under load", a.kills)
	row("runners", "%d processes", a.runners)
	row("jobs/s", "%.0f posted and completed, including the kills, with the load on the same machine", float64(a.completed)/a.took.Seconds())
	row("post of 1000", "p50 %v, p99 %v", quantile(a.posts, 0.5), quantile(a.posts, 0.99))
	row("claim", "p50 %v, p99 %v", quantile(a.claims, 0.5), quantile(a.claims, 0.99))
	row("created to completed", "p50 %v, p99 %v", quantile(a.waits, 0.5), quantile(a.waits, 0.99))
	if err := t.Flush(); err != nil {
		fmt.Fprintln(w, err)
	}
	for _, c := range a.problems {
		fmt.Fprintln(w, c)
	}
}
