package remote

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/job"
)

const (
	// completionWait is how long a shell waits for names. If the server does not answer, nothing is completed.
	completionWait = time.Second
	// MaxCompletions is how many names a shell gets.
	MaxCompletions = 200
)

// lister lists names of a server, and calls add with each.
type lister func(ctx context.Context, c *client.Client, add func(text string) (more bool)) error

// fromServer returns the names of the command's server that begin with typed. Completion shows no errors: it shows the
// names that were found within completionWait.
func fromServer(cmd *cobra.Command, typed string, names lister) (list []string) {
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
	_ = names(ctx, client.New(address, client.Options{RetryFor: -1}), func(text string) bool {
		if strings.HasPrefix(text, typed) {
			list = append(list, text)
		}
		return len(list) < MaxCompletions
	})
	return list
}

func QueueNames(cmd *cobra.Command, typed string) []string {
	of, _, whole := strings.Cut(typed, "/")
	if !whole {
		of = ""
	}
	return fromServer(cmd, typed, func(ctx context.Context, c *client.Client, add func(string) bool) error {
		for q, err := range c.Queues(ctx, of) {
			if err != nil {
				return err
			}
			if !add(q.Client + "/" + q.Type) {
				break
			}
		}
		return nil
	})
}

// namesInQueues lists the clients or types of queues.
func namesInQueues(of func(client.Queue) string) lister {
	return func(ctx context.Context, c *client.Client, add func(string) bool) error {
		seen := map[string]bool{}
		for q, err := range c.Queues(ctx, "") {
			if err != nil {
				return err
			}
			if name := of(q); !seen[name] {
				seen[name] = true
				if !add(name) {
					break
				}
			}
		}
		return nil
	}
}

func ClientNames(cmd *cobra.Command, typed string) []string {
	return fromServer(cmd, typed, namesInQueues(func(q client.Queue) string { return q.Client }))
}

func TypeNames(cmd *cobra.Command, typed string) []string {
	return fromServer(cmd, typed, namesInQueues(func(q client.Queue) string { return q.Type }))
}

func BatchIDs(cmd *cobra.Command, typed string) []string {
	return fromServer(cmd, typed, func(ctx context.Context, c *client.Client, add func(string) bool) error {
		for b, err := range c.Batches(ctx, client.BatchesQuery{PageSize: job.MaxPage}) {
			if err != nil {
				return err
			}
			if !add(b.ID + "\t" + b.Name + " " + b.Status) {
				break
			}
		}
		return nil
	})
}

// JobIDs completes the ids of jobs with one of the statuses.
func JobIDs(statuses ...job.Status) config.Completer {
	return func(cmd *cobra.Command, typed string) []string {
		return fromServer(cmd, typed, func(ctx context.Context, c *client.Client, add func(string) bool) error {
			for _, s := range statuses {
				for j, err := range c.Jobs(ctx, client.JobsQuery{Status: s.String(), Fields: []string{"client", "type", "status"}, PageSize: job.MaxPage}) {
					if err != nil {
						return err
					}
					if !add(j.ID + "\t" + j.Client + "/" + j.Type + " " + j.Status) {
						return nil
					}
				}
			}
			return nil
		})
	}
}

func RunnerIDs(cmd *cobra.Command, typed string) []string {
	return fromServer(cmd, typed, func(ctx context.Context, c *client.Client, add func(string) bool) error {
		for r, err := range c.Runners(ctx) {
			if err != nil {
				return err
			}
			if !add(r.ID) {
				break
			}
		}
		return nil
	})
}

// GetIDs completes the ids of jobs, or with --batch the ids of batches.
func GetIDs(cmd *cobra.Command, typed string) []string {
	if batch, err := cmd.Flags().GetBool("batch"); err == nil && batch {
		return BatchIDs(cmd, typed)
	}
	return JobIDs(job.Statuses...)(cmd, typed)
}

func SweepIDs(cmd *cobra.Command, typed string) []string {
	return fromServer(cmd, typed, func(ctx context.Context, c *client.Client, add func(string) bool) error {
		list, err := c.Sweeps(ctx)
		for _, w := range list {
			if !add(w.ID + "\t" + w.Operation) {
				break
			}
		}
		return err
	})
}

// HandlerTypes completes the types with a stored handler: a handler for the client of --client, or otherwise one for
// all clients.
func HandlerTypes(cmd *cobra.Command, typed string) []string {
	owner := ""
	if f := cmd.Flags().Lookup("client"); f != nil {
		owner = f.Value.String()
	}
	return fromServer(cmd, typed, func(ctx context.Context, c *client.Client, add func(string) bool) error {
		for h, err := range c.Handlers(ctx) {
			if err != nil {
				return err
			}
			if h.Client == owner && !add(h.Type+"\t"+h.Kind) {
				break
			}
		}
		return nil
	})
}

func FilesetNames(cmd *cobra.Command, typed string) []string {
	return fromServer(cmd, typed, func(ctx context.Context, c *client.Client, add func(string) bool) error {
		for f, err := range c.Filesets("").All(ctx) {
			if err != nil {
				return err
			}
			if !add(f.Name) {
				break
			}
		}
		return nil
	})
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
