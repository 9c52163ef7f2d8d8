package daybook

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/daybookq/daybook/bench/peers/measure"
	"github.com/daybookq/daybook/bench/peers/process"
	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/load"
	"github.com/daybookq/daybook/internal/load/works"
	"github.com/daybookq/daybook/job/runs"
)

// driver starts a server; its dialer determines which client drives it.
type driver struct {
	name, client, usage string
	does                func(measure.Work) bool
	open                func(*server) measure.Session
}

// Drivers returns a driver for each client.
func Drivers() []measure.Driver {
	onConnections := func(w measure.Work) bool { return w.Kind != measure.Worker && w.Callers <= measure.Connections }
	return []measure.Driver{
		driver{
			name: "daybook-http", client: "net/http of " + runtime.Version(), does: onConnections, open: openHTTP,
			usage: "POST …/add with lines, POST /jobs/create, POST /jobs/claim and /jobs/complete in JSON; it finds the claim id and " +
				"the payloads in the answer to a claim, and decodes nothing else",
		},
		driver{
			name: "daybook-runs", client: "net/http of " + runtime.Version(), open: openRuns,
			does: func(w measure.Work) bool {
				return onConnections(w) && (w.Kind == measure.Drain || w.Kind == measure.Exchange || w.Kind == measure.Both)
			},
			usage: "the same requests as daybook-http; claims are answered in " + runs.MediaType,
		},
		driver{
			name: "daybook-go", client: "package client of the same commit", open: openGo,
			does:  func(w measure.Work) bool { return w.Kind != measure.Exchange },
			usage: "AddLines, Create, Claim, CompleteClaim; Worker with default settings, except Concurrency and Batch",
		},
		driver{
			name: "daybook-stream", client: "github.com/coder/websocket", does: streamDoes, open: openStreams,
			usage: "GET /stream in JSON: create, a subscription whose credit is the number of jobs under way, complete",
		},
		driver{
			name: "daybook-stream-runs", client: "github.com/coder/websocket", does: streamDoes, open: openStreamsInRuns,
			usage: "the same in binary messages: the creates that wait to be written are one request in runs, and jobs come in runs",
		},
		driver{
			name: "daybook-python", client: "http.client of Python, one thread a connection", open: openPython,
			does:  func(w measure.Work) bool { return onConnections(w) && w.Kind != measure.Exchange },
			usage: "the same requests as daybook-http; json.loads for the answers to claims",
		},
		echo{},
	}
}

func (d driver) Name() string             { return d.name }
func (d driver) Does(w measure.Work) bool { return d.does(w) }

func (d driver) Describe(ctx context.Context) (measure.Description, error) {
	binary, err := daybooktest.Binary()
	if err != nil {
		return measure.Description{}, errors.Join(measure.ErrMissing, err)
	}
	version, err := process.Version(ctx, binary, "version")
	if err != nil {
		return measure.Description{}, err
	}
	return measure.Description{
		Driver: d.name, System: version, Client: d.client, Usage: d.usage,
		Durable: "fsync before each answer; there is no other mode",
	}, nil
}

// server is a running Daybook.
type server struct {
	process *daybooktest.Process
	client  *client.Client // for Fill
}

func (d driver) Start(ctx context.Context, dir string) (measure.Session, error) {
	binary, err := daybooktest.Binary()
	if err != nil {
		return nil, err
	}
	s := &server{process: &daybooktest.Process{Binary: binary, Data: dir, Args: []string{"--log-level", "warn"}, Log: os.Stderr}}
	if err := s.process.Start(ctx); err != nil {
		return nil, err
	}
	s.client = client.New(s.process.URL(), client.Options{})
	return d.open(s), nil
}

func (s *server) Pid() int { return s.process.Pid() }

func (s *server) URL() string { return s.process.URL() }

func (s *server) Close() error { return s.process.Stop() }

// Fill posts the jobs with 8 callers, and waits until all of them can be claimed.
func (s *server) Fill(ctx context.Context, jobs int) error {
	body := lines(1000)
	if err := load.InBatches(ctx, 8, jobs, 1000, func(ctx context.Context, _, n int) error {
		_, err := s.client.AddLines(ctx, body[:n*lineBytes], client.AddOptions{})
		return err
	}); err != nil {
		return err
	}
	for ctx.Err() == nil {
		stats, err := s.client.Stats(ctx)
		if err != nil {
			return err
		}
		if stats.Applied >= stats.Synced {
			break
		}
	}
	return context.Cause(ctx)
}

const lineBytes = measure.PayloadBytes + 1

// lines returns n payloads that do not compress well, each with a newline after it.
func lines(n int) []byte { return works.Lines(n, measure.PayloadBytes) }

// runnerID returns the runner id of a caller.
func runnerID(caller int) string { return fmt.Sprintf("runner-%d", caller) }
