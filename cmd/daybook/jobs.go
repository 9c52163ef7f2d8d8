package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/cmd/daybook/internal/remote"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/job"
)

// jobRow is the part of a job's document that a table shows.
type jobRow struct {
	ID          string `json:"job_id"`
	Client      string `json:"client"`
	Type        string `json:"type"`
	Status      string `json:"status"`
	RunAttempts int    `json:"run_attempts"`
	MaxAttempts int    `json:"max_attempts"`
	CreatedAt   int64  `json:"created_at"`
	UpdatedAt   int64  `json:"updated_at"`
	RunAt       int64  `json:"run_at"`
	RunnerID    string `json:"runner_id"`
	Error       string `json:"error"`
	terminal.Undecodable
}

// rowFields are the fields of a jobRow.
const rowFields = "client,type,status,run_attempts,max_attempts,created_at,updated_at,run_at,runner_id,error"

// orders are the orders of a list of jobs.
var orders = []string{"oldest", "newest", "updated"}

func newJobs() *cobra.Command {
	var r remote.Command
	var status, client, typ, batch, runner, claim, order, fields string
	var after, before, updatedAfter, updatedBefore terminal.TimeFlag
	var meta []string
	var limit int
	var idsOnly bool
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "List jobs",
		Long: `List jobs, the oldest first: those with a status, of a client or type, of a batch, with an entry in their meta, of
a runner or claim, or of a time. "daybook get ID" shows all of one.

--order newest begins with the newest job, and --order updated with the job that was last created, moved to another
status or patched. The latter is the order with --updated-after or --updated-before, unless --order is given.

With --ids the list has only ids, those of all jobs unless --limit is given. "daybook cancel -", "redrive -" and
"rm -" read them.`,
		Example: `  daybook jobs --status failed
  daybook jobs --client acme --type resize --created-after today --limit 0
  daybook jobs --status failed --batch 0185a1b2-c3d4-7000-8000-00000c800000
  daybook jobs --status active --runner-id mixer-1 --json
  daybook jobs --status failed --updated-after today`,
		Args: cobra.NoArgs,
	}
	config.EncryptionFlag(cmd, &r.Server)
	remote.Over(&r, cmd, func(cmd *cobra.Command, _ []string) error {
		switch {
		case limit < 0:
			return terminal.Usagef("--limit is the number of jobs, or 0 for all, and not %d", limit)
		case idsOnly && r.AsJSON:
			return terminal.Usage(errors.New("--ids and --json exclude each other; --json has the ids too"))
		case fields != "" && !r.AsJSON:
			return terminal.Usage(errors.New("--fields is for --json only"))
		case order != "" && !slices.Contains(orders, order):
			return terminal.Usagef("--order must be one of %s, and not %q", strings.Join(orders, ", "), order)
		case status != "" && namedStatus(status) == 0:
			return terminal.Usagef("--status must be one of %s, and not %q", statusList(job.Statuses), status)
		}
		if err := givenFilters(cmd, "client", "type", "batch", "runner-id", "claim"); err != nil {
			return err
		}
		for _, id := range []string{batch, claim} {
			if err := remote.CheckIDs(id); id != "" && err != nil {
				return err
			}
		}
		if idsOnly && !cmd.Flags().Changed("limit") { // another command reads them, and nobody would notice that some are missing
			limit = 0
		}
		pairs, err := metaPairs(meta)
		if err != nil {
			return err
		}
		query := url.Values{"limit": {strconv.Itoa(job.MaxPage)}}
		if limit > 0 {
			query.Set("limit", strconv.Itoa(min(limit, job.MaxPage)))
		}
		for name, value := range map[string]string{"status": status, "client": client, "type": typ, "batch_id": batch, "runner_id": runner, "claim_id": claim, "order": order, "fields": fields} {
			if value != "" {
				query.Set(name, value)
			}
		}
		for name, ms := range map[string]terminal.TimeFlag{"created_after": after, "created_before": before, "updated_after": updatedAfter, "updated_before": updatedBefore} {
			if ms != 0 {
				query.Set(name, strconv.FormatInt(int64(ms), 10))
			}
		}
		for name, value := range pairs {
			query.Set("meta."+name, value)
		}
		return listJobs(cmd, &r, query, limit, idsOnly)
	})
	flags := cmd.Flags()
	flags.StringVar(&status, "status", "", "only jobs with this status: "+statusList(job.Statuses))
	flags.StringVar(&client, "client", "", "only jobs of this client")
	flags.StringVar(&typ, "type", "", "only jobs of this type")
	flags.StringVar(&batch, "batch", "", "only jobs of this batch")
	flags.StringVar(&runner, "runner-id", "", "only jobs that this runner holds, or whose last run it ended")
	flags.StringVar(&claim, "claim", "", "only jobs whose current or last claim is this one")
	flags.Var(&after, "created-after", "only jobs created at this time or later: "+terminal.TimeForms)
	flags.Var(&before, "created-before", "only jobs created before this time")
	flags.Var(&updatedAfter, "updated-after", "only jobs created, moved to another status or patched at this time or later")
	flags.Var(&updatedBefore, "updated-before", "only jobs whose last such change was before this time")
	flags.StringVar(&order, "order", "", "order of the list: "+strings.Join(orders, ", ")+" (default: oldest, or updated if a flag about that is given)")
	flags.StringArrayVar(&meta, "meta", nil, "only jobs with NAME=VALUE in their meta; may be given several times")
	flags.IntVar(&limit, "limit", 100, "how many jobs are listed; 0 means all, as with --ids")
	flags.BoolVar(&idsOnly, "ids", false, "print only the ids")
	flags.StringVar(&fields, "fields", "", "with --json: print only these fields, separated by commas")
	remote.LinesFlag(cmd, &r.AsJSON, "job")
	config.CompleteFlag(cmd, "status", remote.StatusNames)
	config.CompleteFlag(cmd, "order", func(*cobra.Command, string) []string { return orders })
	config.CompleteFlag(cmd, "client", remote.ClientNames)
	config.CompleteFlag(cmd, "type", remote.TypeNames)
	config.CompleteFlag(cmd, "batch", remote.BatchIDs)
	config.CompleteFlag(cmd, "runner-id", remote.RunnerIDs)
	return cmd
}

// givenFilters refuses a filter flag without a value. The filter would list everything, and a script whose variable is
// empty might cancel or remove all of it.
func givenFilters(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "" {
			return terminal.Usagef("--%s has no value; without --%s the list has all", name, name)
		}
	}
	return nil
}

// listJobs prints the jobs of a query. It prints a table for each page of the list, so that a long list needs little
// memory.
func listJobs(cmd *cobra.Command, r *remote.Command, query url.Values, limit int, idsOnly bool) error {
	if !r.AsJSON {
		query.Set("fields", rowFields)
	}
	if idsOnly {
		query.Set("fields", "status")
	}
	list := jobTable{to: r.Out, runAt: query.Get("status") == job.Deferred.String()}
	shown := 0
	cut := false
	err := r.EachDocument(cmd, "/jobs", query, "jobs", func(doc json.RawMessage) (more bool, err error) {
		if limit > 0 && shown == limit {
			cut = true
			return false, nil
		}
		shown++
		if r.AsJSON {
			return true, remote.WriteDocument(r.Out, doc)
		}
		var one jobRow
		if err := json.Unmarshal(doc, &one); err != nil {
			return false, remote.Unreadable(err)
		}
		if idsOnly {
			_, err := fmt.Fprintln(r.Out, one.ID)
			return true, err
		}
		if list.rows = append(list.rows, one); len(list.rows) == job.MaxPage {
			err = list.print()
		}
		return true, err
	})
	undecodable := err
	if err == nil || errors.Is(err, client.ErrUndecodable) {
		err = list.print()
	}
	if err == nil && !contentsOnly(query.Get("fields")) {
		undecodable = remote.NoteUndecodable(cmd, undecodable)
	}
	if err = cmp.Or(err, undecodable); err != nil {
		return err
	}
	switch {
	case shown == 0 && !r.AsJSON && !idsOnly:
		_, err = fmt.Fprintln(r.Out, "there are no such jobs")
	case cut:
		_, err = fmt.Fprintf(cmd.ErrOrStderr(), "there are more than %s; --limit 0 lists all\n", terminal.JobsText(limit))
	}
	return err
}

// contentsOnly reports whether a list of fields names contents that can be encrypted, and nothing else.
func contentsOnly(fields string) bool {
	for name := range strings.SplitSeq(fields, ",") {
		if !slices.Contains([]string{"payload", "output", "error"}, strings.TrimSpace(name)) {
			return false
		}
	}
	return true
}

// jobTable prints jobs, some at a time.
type jobTable struct {
	to    io.Writer
	rows  []jobRow // not printed yet
	runAt bool     // it has a column with the times of deferred jobs
	begun bool     // its head was printed
}

// print prints the rows. The table has the times of deferred jobs if one of the first rows is deferred.
func (t *jobTable) print() error {
	if len(t.rows) == 0 {
		return nil
	}
	head := !t.begun
	t.runAt = t.runAt || head && slices.ContainsFunc(t.rows, func(j jobRow) bool { return j.Status == job.Deferred.String() })
	err := terminal.Table(t.to, func(row func(...any)) {
		cells := func(runAt string, before []any, after ...any) {
			if t.runAt {
				before = append(before, runAt)
			}
			row(append(before, after...)...)
		}
		if head {
			cells("RUN AT", []any{"ID", "QUEUE", "STATUS", "ATTEMPTS", "CREATED"}, "RUNNER", "ERROR")
		}
		for _, j := range t.rows {
			cells(dueText(j), []any{j.ID, j.Client + "/" + j.Type, j.Status, fmt.Sprintf("%d/%d", j.RunAttempts, j.MaxAttempts), terminal.Moment(j.CreatedAt)},
				terminal.OrDash(j.RunnerID), terminal.ShortError(cmp.Or(j.Of("error"), j.Error)))
		}
	})
	t.rows, t.begun = t.rows[:0], true
	return err
}

// dueText describes when a deferred job becomes pending.
func dueText(j jobRow) string {
	switch {
	case j.Status != job.Deferred.String() || j.RunAt == 0:
		return "-"
	case j.RunAt >= job.MaxTimeMs:
		return "batch paused"
	}
	return terminal.Moment(j.RunAt)
}
