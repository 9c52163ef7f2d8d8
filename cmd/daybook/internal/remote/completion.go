package remote

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/files"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/job"
)

const (
	// completionWait is how long a shell waits for names. If the server does not answer, nothing is completed.
	completionWait = time.Second
	// MaxCompletions is how many names a shell gets.
	MaxCompletions = 200
)

// fromServer returns the names of the command's server that begin with typed. Completion shows no errors: it shows the
// names that were found within completionWait. names returns a list of a server, and text the name of an element, or ""
// if it has none; a tab separates a name from its description.
func fromServer[T any](cmd *cobra.Command, typed string, names func(ctx context.Context, c *client.Client) iter.Seq2[T, error], text func(T) string) (list []string) {
	if err := config.Configure(cmd, cmd.Root); err != nil {
		return nil
	}
	var server config.ServerAddress
	if f := cmd.Flags().Lookup("server"); f != nil {
		server = *f.Value.(*config.ServerAddress)
	}
	ctx, stop := context.WithTimeout(cmd.Context(), completionWait)
	defer stop()
	address, err := server.URL(ctx)
	if err != nil {
		return nil
	}
	c, err := server.Client(address, client.Options{RetryFor: -1})
	if err != nil {
		return nil
	}
	seen := map[string]bool{}
	for one, err := range names(ctx, c) {
		if err != nil {
			break
		}
		if name := text(one); name != "" && !seen[name] && strings.HasPrefix(name, typed) {
			seen[name] = true
			if list = append(list, name); len(list) == MaxCompletions {
				break
			}
		}
	}
	return list
}

// queues lists the queues of a client, or with "" all.
func queues(of string) func(context.Context, *client.Client) iter.Seq2[client.Queue, error] {
	return func(ctx context.Context, c *client.Client) iter.Seq2[client.Queue, error] { return c.Queues(ctx, of) }
}

// QueueNames completes the names of queues, as CLIENT/TYPE.
func QueueNames(cmd *cobra.Command, typed string) []string {
	of, _, whole := strings.Cut(typed, "/")
	if !whole {
		of = ""
	}
	return fromServer(cmd, typed, queues(of), func(q client.Queue) string { return q.Client + "/" + q.Type })
}

// ClientNames completes the clients that have queues.
func ClientNames(cmd *cobra.Command, typed string) []string {
	return fromServer(cmd, typed, queues(""), func(q client.Queue) string { return q.Client })
}

// TypeNames completes the types of queues.
func TypeNames(cmd *cobra.Command, typed string) []string {
	return fromServer(cmd, typed, queues(""), func(q client.Queue) string { return q.Type })
}

// BatchIDs completes the ids of batches.
func BatchIDs(cmd *cobra.Command, typed string) []string {
	return fromServer(cmd, typed, func(ctx context.Context, c *client.Client) iter.Seq2[client.Batch, error] {
		return c.Batches(ctx, client.BatchesQuery{PageSize: job.MaxPage})
	}, func(b client.Batch) string { return b.ID + "\t" + b.Name + " " + b.Status })
}

// JobIDs completes the ids of jobs with one of the statuses.
func JobIDs(statuses ...job.Status) config.Completer {
	return func(cmd *cobra.Command, typed string) []string {
		return fromServer(cmd, typed, func(ctx context.Context, c *client.Client) iter.Seq2[*client.Job, error] {
			return func(yield func(*client.Job, error) bool) {
				for _, s := range statuses {
					for j, err := range c.Jobs(ctx, client.JobsQuery{Status: s.String(), Fields: []string{"client", "type", "status"}, PageSize: job.MaxPage}) {
						if !yield(j, err) {
							return
						}
					}
				}
			}
		}, func(j *client.Job) string { return j.ID + "\t" + j.Client + "/" + j.Type + " " + j.Status })
	}
}

// RunnerIDs completes the ids of runners.
func RunnerIDs(cmd *cobra.Command, typed string) []string {
	return fromServer(cmd, typed, func(ctx context.Context, c *client.Client) iter.Seq2[client.Runner, error] { return c.Runners(ctx) },
		func(r client.Runner) string { return r.ID })
}

// GetIDs completes the ids of jobs, or with --batch the ids of batches.
func GetIDs(cmd *cobra.Command, typed string) []string {
	if batch, err := cmd.Flags().GetBool("batch"); err == nil && batch {
		return BatchIDs(cmd, typed)
	}
	return JobIDs(job.Statuses...)(cmd, typed)
}

// SweepIDs completes the ids of sweeps.
func SweepIDs(cmd *cobra.Command, typed string) []string {
	return fromServer(cmd, typed, func(ctx context.Context, c *client.Client) iter.Seq2[client.Sweep, error] {
		return func(yield func(client.Sweep, error) bool) {
			list, err := c.Sweeps(ctx)
			for _, w := range list {
				if !yield(w, nil) {
					return
				}
			}
			if err != nil {
				yield(client.Sweep{}, err)
			}
		}
	}, func(w client.Sweep) string { return w.ID + "\t" + w.Operation })
}

// HandlerTypes completes the types with a stored handler: a handler for the client of --client, or otherwise one for
// all clients.
func HandlerTypes(cmd *cobra.Command, typed string) []string {
	owner := ""
	if f := cmd.Flags().Lookup("client"); f != nil {
		owner = f.Value.String()
	}
	return fromServer(cmd, typed, func(ctx context.Context, c *client.Client) iter.Seq2[client.StoredHandler, error] {
		return c.Handlers(ctx)
	},
		func(h client.StoredHandler) string {
			if h.Client != owner {
				return ""
			}
			return h.Type + "\t" + h.Kind
		})
}

// KeyNames completes the names of keys.
func KeyNames(cmd *cobra.Command, typed string) []string {
	if data := cmd.Flags().Lookup("data"); data != nil && data.Changed {
		return nil // the keys of a stopped server
	}
	return fromServer(cmd, typed, func(ctx context.Context, c *client.Client) iter.Seq2[client.Key, error] { return c.Keys(ctx) },
		func(k client.Key) string { return k.Name + "\t" + strings.Join(k.Roles, ", ") })
}

// NodeNames completes the names of the nodes of a cluster.
func NodeNames(cmd *cobra.Command, typed string) []string {
	return fromServer(cmd, typed, func(ctx context.Context, c *client.Client) iter.Seq2[job.MemberStatus, error] {
		return func(yield func(job.MemberStatus, error) bool) {
			s, err := c.Cluster(ctx)
			for _, n := range s.Nodes {
				if !yield(n, err) {
					return
				}
			}
		}
	}, func(n job.MemberStatus) string { return n.Node + "\t" + n.Address })
}

// FilesetNames completes the names of filesets.
func FilesetNames(cmd *cobra.Command, typed string) []string {
	return fromServer(cmd, typed, func(ctx context.Context, c *client.Client) iter.Seq2[files.Fileset, error] {
		return c.Filesets("").All(ctx)
	},
		func(f files.Fileset) string { return f.Name })
}

// FilesetArgs completes the argument at a place to the name of a fileset, and all other arguments to directories.
func FilesetArgs(place int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) == place {
			return FilesetNames(cmd, typed), cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
}

// StatusesStarted are the statuses of jobs that may have run.
var StatusesStarted = []job.Status{job.Active, job.Completed, job.Failed, job.Cancelled}

// StatusNames completes the statuses of jobs.
func StatusNames(*cobra.Command, string) []string {
	var names []string
	for _, s := range job.Statuses {
		names = append(names, s.String())
	}
	return names
}
