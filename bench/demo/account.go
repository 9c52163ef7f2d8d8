package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/daybookq/daybook/client"
)

// account is the result of the demo: there must be one completed job for every line.
type account struct {
	sums          [][8]byte // of each line, by its number
	files         int
	took          time.Duration
	runners       int
	kills         int
	posts, claims []time.Duration

	seen                          []bool // by the number of the line
	completed, rerun, lost, wrong int
	waits                         []time.Duration // from created to completed
	problems                      []string        // the first lost or wrong jobs
}

// check reads all jobs, and compares them with the lines.
func (a *account) check(ctx context.Context, c *client.Client) error {
	a.seen = make([]bool, len(a.sums))
	n := 0
	for j, err := range c.Jobs(ctx, client.JobsQuery{Type: queueType, PageSize: 1000}) {
		if err != nil {
			return fmt.Errorf("read the jobs back: %w", err)
		}
		a.look(j)
		if n++; n%100_000 == 0 {
			fmt.Printf("read back %9d\n", n)
		}
	}
	for line, seen := range a.seen {
		if !seen {
			a.report(&a.lost, "line %d has no job", line)
		}
	}
	return nil
}

// look compares one job with its line.
func (a *account) look(j *client.Job) {
	line := number(j.Payload)
	if line < 0 || line >= len(a.sums) || sum(j.Payload) != a.sums[line] {
		a.report(&a.wrong, "job %s: its payload is %q", j.ID, j.Payload)
		return
	}
	if j.RunAttempts > 1 {
		a.rerun++
	}
	switch {
	case a.seen[line]:
		a.report(&a.wrong, "line %d, job %s: the line has another job", line, j.ID)
	case j.Status != "completed":
		a.report(&a.lost, "line %d, job %s: it is %s", line, j.ID, j.Status)
	case string(j.Output) != string(compute(j.Payload)):
		a.report(&a.wrong, "line %d, job %s: its output is %s", line, j.ID, j.Output)
	default:
		a.completed++
		a.waits = append(a.waits, time.Duration(j.CompletedAt-j.CreatedAt)*time.Millisecond)
	}
	a.seen[line] = true
}

func (a *account) report(count *int, format string, args ...any) {
	*count++
	if len(a.problems) < 10 {
		a.problems = append(a.problems, fmt.Sprintf(format, args...))
	}
}

func (a *account) print(w io.Writer) error {
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
	row("kills", "%d with SIGKILL, under load", a.kills)
	row("runners", "%d processes", a.runners)
	row("jobs/s", "%.0f posted and completed, including the kills, with the load on the same machine", float64(a.completed)/a.took.Seconds())
	row(fmt.Sprintf("post of %d KiB", bodyBytes>>10), "p50 %v, p99 %v", quantile(a.posts, 0.5), quantile(a.posts, 0.99))
	row("claim", "p50 %v, p99 %v", quantile(a.claims, 0.5), quantile(a.claims, 0.99))
	row("created to completed", "p50 %v, p99 %v", quantile(a.waits, 0.5), quantile(a.waits, 0.99))
	for _, problem := range a.problems {
		fmt.Fprintln(t, problem)
	}
	return t.Flush()
}

func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(int(q*float64(len(all))), len(all)-1)].Round(10 * time.Microsecond)
}
