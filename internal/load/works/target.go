package works

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/load"
)

// Target is a server to measure. The works use only the queues of its client name.
type Target struct {
	URL    string
	Name   string // the client name of its queues
	client *client.Client
	http   *http.Client
	key    string
}

// NewTarget returns a target with a random client name. o has the settings of TLS and the key, if the server needs them.
func NewTarget(url string, o client.Options) *Target {
	t := &Target{URL: strings.TrimRight(url, "/"), Name: "bench-" + strings.ToLower(rand.Text()[:10]), key: o.Key}
	t.http = &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConns: mostUnderWay, MaxIdleConnsPerHost: mostUnderWay, ReadBufferSize: 32 << 10, TLSClientConfig: o.TLS}}
	o.HTTP = t.http
	t.client = client.New(t.URL, o)
	return t
}

// Close closes the idle connections.
func (t *Target) Close() { t.http.CloseIdleConnections() }

const (
	payloadBytes = 100
	bulkJobs     = 1000 // in a post
	// fillers is the number of concurrent posts of Fill.
	fillers = 8
	// mostFill bounds a backlog to a gigabyte of payloads.
	mostFill = 10_000_000
)

// Lines returns n lines of size bytes each, with letters and digits that do not compress well.
func Lines(n, size int) []byte {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	body, x := make([]byte, 0, n*(size+1)), uint64(88172645463325252)
	for range n {
		for range size {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			body = append(body, alphabet[x>>58])
		}
		body = append(body, '\n')
	}
	return body
}

var bulkBody = Lines(bulkJobs, payloadBytes)

func (t *Target) add(ctx context.Context, typ string, lines []byte) error {
	_, err := t.client.AddLines(ctx, lines, client.AddOptions{Client: t.Name, Type: typ})
	return err
}

// Fill creates a number of waiting jobs of a type, up to mostFill, and returns how many it created.
func (t *Target) Fill(ctx context.Context, typ string, jobs int64) (int64, error) {
	jobs = max(0, min(jobs, mostFill))
	if err := load.InBatches(ctx, fillers, int(jobs), bulkJobs, func(ctx context.Context, _, n int) error {
		return t.add(ctx, typ, bulkBody[:n*(payloadBytes+1)])
	}); err != nil {
		return 0, fmt.Errorf("create jobs to claim: %w", err)
	}
	return jobs, nil
}

// Waiting returns the number of jobs of a type that wait to be claimed.
func (t *Target) Waiting(ctx context.Context, typ string) (int64, error) {
	q, err := t.client.Queue(ctx, t.Name, typ)
	if errors.Is(err, client.ErrNotFound) {
		return 0, nil
	}
	return q.Counts["pending"], err
}

// deletions bounds how often Delete lists the queues.
const deletions = 5

// Delete deletes all queues of the target with their jobs. It calls progress with the number of deleted jobs. It repeats
// until no queue is left, because the server may still carry out cancelled creates. It returns an error if queues keep
// appearing.
func (t *Target) Delete(ctx context.Context, progress func(jobs int64)) error {
	deleted := int64(0)
	for range deletions {
		var types []string
		for q, err := range t.client.Queues(ctx, t.Name) {
			if err != nil {
				return fmt.Errorf("list the queues of client %s: %w", t.Name, err)
			}
			types = append(types, q.Type)
		}
		if len(types) == 0 {
			return nil
		}
		for _, typ := range types {
			n, err := t.deleteQueue(ctx, typ, func(jobs int64) { progress(deleted + jobs) })
			deleted += n
			if err != nil && !errors.Is(err, client.ErrNotFound) && !errors.Is(err, client.ErrConflict) { // a job was created at the same time
				return fmt.Errorf("delete the queue %s/%s: %w", t.Name, typ, err)
			}
		}
	}
	return fmt.Errorf("client %s has queues again each time after they are deleted: another program creates jobs in them", t.Name)
}

// deleteQueue deletes a queue with its jobs, and returns the number of jobs.
func (t *Target) deleteQueue(ctx context.Context, typ string, progress func(jobs int64)) (int64, error) {
	sweep, err := t.client.DeleteQueueJobs(ctx, t.Name, typ, "all")
	if err == nil && sweep.ID != "" {
		sweep, err = t.client.WaitSweep(ctx, sweep, func(s client.Sweep) { progress(s.Moved) })
	}
	if err != nil {
		return 0, err
	}
	progress(sweep.Moved)
	return sweep.Moved, t.client.DeleteQueue(ctx, t.Name, typ)
}

// RoundTrip returns the duration of the fastest of some pings.
func (t *Target) RoundTrip(ctx context.Context) (time.Duration, error) {
	best := time.Hour
	for range 20 {
		began := time.Now()
		if err := t.client.Ping(ctx); err != nil {
			return 0, err
		}
		best = min(best, time.Since(began))
	}
	return best, nil
}

// Version returns the server's version. It does not retry, so it shows whether the server answers.
func (t *Target) Version(ctx context.Context) (client.Version, error) {
	return t.client.With(func(o *client.Options) { o.RetryFor = -1 }).Version(ctx)
}
