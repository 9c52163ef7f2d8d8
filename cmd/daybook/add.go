package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/job"
)

const (
	// addBodyBytes bounds a body: half of what the server takes, and room for the longest line there may be.
	addBodyBytes = job.MaxPayloadBytes + 1
	// addChunkBytes is what one read of the input may bring; a pipe gives no more.
	addChunkBytes = 64 << 10
	// addPatience is how long one body is offered again to a server that refuses it for now.
	addPatience = time.Minute
)

type addFlags struct {
	server, client, typ     string
	priority, maxAttempts   int
	runAt                   int64
	delay, lease, retention durationFlag
	asJSON                  bool
}

func newAdd() *cobra.Command {
	var f addFlags
	cmd := &cobra.Command{
		Use:   "add [FILE]",
		Short: "Post the lines of a file as jobs",
		Long: `Post each non-empty line of a file, or of standard input (also as -), as the payload of a job. Lines go out as they come, in bodies of up to 4 MiB, each of
which becomes a batch: all of it is stored or nothing is. The ids of the batches are printed, one a line, once they are on the server's disk.

A server that refuses for now is asked again for a minute. When a batch fails for good, the message says how many lines were stored before it.`,
		Example: `  daybook add --type resize images.txt
  find /data -type f | daybook add --client acme --type index --priority 7 --delay 10m`,
		Args: cobra.MaximumNArgs(1),
	}
	flags := cmd.Flags()
	serverFlag(cmd, &f.server)
	flags.StringVar(&f.client, "client", job.DefaultName, "client that the jobs belong to")
	flags.StringVar(&f.typ, "type", job.DefaultName, "type of the jobs")
	flags.IntVar(&f.priority, "priority", job.DefaultPriority, "0 to 9, the highest first")
	flags.IntVar(&f.maxAttempts, "max-attempts", 0, "how often a job runs at most (default: the server's)")
	flags.Int64Var(&f.runAt, "run-at", 0, "unix milliseconds before which the jobs do not run")
	flags.Var(&f.delay, "delay", "how long the jobs wait before they may run")
	flags.Var(&f.lease, "lease", "how long a claim may go without a tickle (default: the server's)")
	flags.Var(&f.retention, "retention", "how long finished jobs are kept (default: the server's)")
	flags.BoolVar(&f.asJSON, "json", false, "print JSON, one batch a line")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		options, err := f.options(cmd)
		if err != nil {
			return err
		}
		// A server that is not there at all is a mistake to be told at once; one that goes away later is waited for.
		if _, err := ask(cmd, f.server, "/ping"); err != nil {
			return err
		}
		in := cmd.InOrStdin()
		if len(args) == 1 && args[0] != "-" {
			file, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer file.Close() // it was only read
			in = file
		}
		a := adding{
			cmd: cmd, client: client.New(f.server, client.Options{RetryFor: addPatience}), options: options,
			asJSON: f.asJSON, watched: isTerminal(cmd.ErrOrStderr()), start: time.Now(),
		}
		err = a.all(in)
		if a.watched {
			fmt.Fprintln(cmd.ErrOrStderr())
		}
		if err != nil {
			return fmt.Errorf("after %d lines were stored in %d batches: %w", a.lines, a.batches, err)
		}
		return nil
	}
	return cmd
}

// options are the attributes that were given; the server knows the rest.
func (f *addFlags) options(cmd *cobra.Command) (o client.AddOptions, err error) {
	for _, err := range []error{
		job.CheckName("--client", f.client), job.CheckName("--type", f.typ), job.CheckRange("--priority", int64(f.priority), 0, job.MaxPriority),
	} {
		if err != nil {
			return o, usageError{err}
		}
	}
	o.Client, o.Type = f.client, f.typ
	o.Priority = &f.priority
	o.MaxAttempts, o.RunAt, o.DelayMs, o.LeaseMs = f.maxAttempts, f.runAt, f.delay.ms(), f.lease.ms()
	if cmd.Flags().Changed("retention") {
		ms := f.retention.ms()
		o.RetentionMs = &ms
	}
	return o, nil
}

// adding is one run of add.
type adding struct {
	cmd     *cobra.Command
	client  *client.Client
	options client.AddOptions
	asJSON  bool
	watched bool
	start   time.Time

	lines, bytes int64
	batches      int
}

// all posts the lines of in. While a body is on its way the next one gathers, so that a stream is not held up until 4 MiB are there.
func (a *adding) all(in io.Reader) error {
	chunks := make(chan []byte, addBodyBytes/addChunkBytes)
	ctx, cancel := context.WithCancel(a.cmd.Context())
	defer cancel() // the reader stops with the next chunk, if this ends early
	var readErr error
	go func() {
		defer close(chunks)
		for {
			chunk := make([]byte, addChunkBytes)
			n, err := in.Read(chunk)
			if n > 0 {
				select {
				case chunks <- chunk[:n]:
				case <-ctx.Done():
					return
				}
			}
			if err != nil {
				if err != io.EOF {
					readErr = err
				}
				return
			}
		}
	}()
	var body []byte
	for open := true; open; {
		body, open = gather(body, chunks)
		if !open && readErr != nil {
			return fmt.Errorf("read input: %w", readErr) // what is left may end in half a line
		}
		for len(body) > 0 {
			cut := len(body)
			if open || cut > addBodyBytes {
				cut = bytes.LastIndexByte(body[:min(cut, addBodyBytes)], '\n') + 1
			}
			if cut == 0 && len(body) >= addBodyBytes {
				return fmt.Errorf("the next line has more than %d bytes", job.MaxPayloadBytes)
			}
			if cut == 0 {
				break
			}
			if err := a.post(ctx, body[:cut]); err != nil {
				return err
			}
			body = body[cut:]
		}
		body = bytes.Clone(body) // what was posted before it is let go
	}
	return nil
}

// gather waits for one chunk and takes those behind it that are there, up to a body's length.
func gather(body []byte, chunks <-chan []byte) (_ []byte, open bool) {
	chunk, open := <-chunks
	for open {
		body = append(body, chunk...)
		if len(body) >= addBodyBytes {
			return body, true
		}
		select {
		case chunk, open = <-chunks:
		default:
			return body, true
		}
	}
	return body, false
}

// post stores one body as a batch. The client offers it again only when it is known that nothing of it was stored.
func (a *adding) post(ctx context.Context, body []byte) error {
	added, err := a.client.AddLines(ctx, body, a.options)
	if err != nil {
		return err
	}
	return a.stored(added, len(body))
}

// stored prints a batch.
func (a *adding) stored(b client.Added, n int) (err error) {
	a.bytes += int64(n)
	if b.Count > 0 {
		a.batches++
		a.lines += int64(b.Count)
		if a.asJSON {
			err = json.NewEncoder(a.cmd.OutOrStdout()).Encode(map[string]any{
				"batch_id": b.BatchID, "count": b.Count, "first_id": b.FirstID, "last_id": b.LastID,
			})
		} else {
			_, err = fmt.Fprintln(a.cmd.OutOrStdout(), b.BatchID)
		}
	}
	if a.watched {
		rate := float64(a.lines) / max(time.Since(a.start).Seconds(), 0.001)
		fmt.Fprintf(a.cmd.ErrOrStderr(), "\r%d lines, %s, %.0f lines/s ", a.lines, volume(a.bytes), rate)
	}
	return err
}
