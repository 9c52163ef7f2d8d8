package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

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
		target, err := f.target(cmd)
		if err != nil {
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
		a := adding{cmd: cmd, target: target, asJSON: f.asJSON, watched: isTerminal(cmd.ErrOrStderr()), start: time.Now()}
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

// target is the URL to post to, with those attributes that were given.
func (f *addFlags) target(cmd *cobra.Command) (string, error) {
	for _, err := range []error{job.CheckName("--client", f.client), job.CheckName("--type", f.typ)} {
		if err != nil {
			return "", usageError{err}
		}
	}
	query := url.Values{"client": {f.client}, "jobtype": {f.typ}}
	for flag, p := range map[string]struct {
		parameter string
		n         int64
	}{
		"priority":     {"priority", int64(f.priority)},
		"max-attempts": {"max_attempts", int64(f.maxAttempts)},
		"run-at":       {"run_at", f.runAt},
		"delay":        {"delay_ms", f.delay.ms()},
		"lease":        {"lease_ms", f.lease.ms()},
		"retention":    {"retention_ms", f.retention.ms()},
	} {
		if cmd.Flags().Changed(flag) {
			query.Set(p.parameter, strconv.FormatInt(p.n, 10))
		}
	}
	return strings.TrimSuffix(f.server, "/") + "/add?" + query.Encode(), nil
}

// adding is one run of add.
type adding struct {
	cmd     *cobra.Command
	target  string
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

// batch is the answer to a body.
type batch struct {
	ID    string `json:"batch_id"`
	Count int64  `json:"count"`
	First string `json:"first_id"`
	Last  string `json:"last_id"`
}

// post stores one body as a batch. It is offered again only when it is known that nothing of it was stored.
func (a *adding) post(ctx context.Context, body []byte) error {
	until := time.Now().Add(addPatience)
	for {
		b, again, err := a.offer(ctx, body)
		if err == nil {
			return a.stored(b, len(body))
		}
		if again < 0 || time.Now().Add(again).After(until) {
			return err
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// offer sends a body once. After a failure, again says how long to wait before the next try; negative: it must not be tried again.
func (a *adding) offer(ctx context.Context, body []byte) (b batch, again time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.target, bytes.NewReader(body))
	if err != nil {
		return b, -1, usageError{err}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" { // nothing was sent
			if a.batches == 0 {
				return b, -1, err
			}
			return b, time.Second, err // it was there before: it may be restarting
		}
		return b, -1, fmt.Errorf("%w (whether this batch was stored is unknown)", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return b, -1, fmt.Errorf("read answer: %w (whether this batch was stored is unknown)", err)
	}
	if resp.StatusCode == http.StatusCreated {
		if err := json.Unmarshal(text, &b); err != nil {
			return b, -1, fmt.Errorf("read answer: %w", err)
		}
		return b, 0, nil
	}
	var problem struct{ Code, Detail, Outcome string }
	if err := json.Unmarshal(text, &problem); err != nil || problem.Code == "" {
		return b, -1, fmt.Errorf("the server answered %s, which is not an answer of this kind of server", resp.Status)
	}
	err = fmt.Errorf("%s (%s)", problem.Detail, problem.Code)
	if problem.Outcome != "not_stored" {
		return b, -1, fmt.Errorf("%w; whether this batch was stored is %s", err, problem.Outcome)
	}
	if seconds, convErr := strconv.Atoi(resp.Header.Get("Retry-After")); convErr == nil && seconds >= 0 {
		return b, time.Duration(seconds) * time.Second, err
	}
	return b, -1, err
}

// stored prints a batch.
func (a *adding) stored(b batch, n int) (err error) {
	a.bytes += int64(n)
	if b.Count > 0 {
		a.batches++
		a.lines += b.Count
		if a.asJSON {
			err = json.NewEncoder(a.cmd.OutOrStdout()).Encode(b)
		} else {
			_, err = fmt.Fprintln(a.cmd.OutOrStdout(), b.ID)
		}
	}
	if a.watched {
		rate := float64(a.lines) / max(time.Since(a.start).Seconds(), 0.001)
		fmt.Fprintf(a.cmd.ErrOrStderr(), "\r%d lines, %s, %.0f lines/s ", a.lines, volume(a.bytes), rate)
	}
	return err
}
