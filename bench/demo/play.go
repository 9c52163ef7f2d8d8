package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
)

type options struct {
	binary  string
	lines   int
	runners int
	kills   int
	data    string
}

const (
	// bodyBytes is the size of a usual bulk post, about a thousand lines.
	bodyBytes = 100 << 10
	posters   = 4
	queueType = "count-words"
)

// demo is the state of a demo.
type demo struct {
	o      options
	server *daybooktest.Process
	client *client.Client
	posted atomic.Int64
	killed int
}

func play(ctx context.Context, o options) (a *account, err error) {
	dir, err := os.MkdirTemp("", "daybook-demo-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if o.data == "" {
		o.data = filepath.Join(dir, "data")
	}
	if o.binary == "" {
		if o.binary, err = daybooktest.Binary(); err != nil {
			return nil, err
		}
	}
	log, err := os.Create(filepath.Join(dir, "server.log"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()

	s := &demo{o: o, server: &daybooktest.Process{Binary: o.binary, Data: o.data, Log: log, Args: []string{"--log-level", "error"}}}
	if err := s.server.Start(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.server.Stop()) }()
	s.client = client.New(s.server.URL(), client.Options{})

	fmt.Printf("serving on %s with the data in %s; %d runner processes\n", s.server.URL(), o.data, o.runners)
	runners, err := startRunners(o.runners, s.server.URL())
	if err != nil {
		return nil, err
	}
	began := time.Now()
	a = &account{runners: o.runners}
	var posting error
	done := make(chan struct{})
	go func() {
		defer close(done)
		posting = s.post(ctx, a)
	}()
	if err := s.watch(ctx, done); err != nil {
		return nil, errors.Join(err, stopRunners(runners, a))
	}
	<-done
	a.took = time.Since(began)
	if err := errors.Join(posting, stopRunners(runners, a)); err != nil {
		return nil, err
	}
	fmt.Println("\nworked off; reading every job back")
	a.kills = s.killed
	return a, a.check(ctx, s.client)
}

// post posts all lines. The client repeats each post that a kill leaves without an answer. Its key makes the server store
// the lines only once.
func (s *demo) post(ctx context.Context, a *account) error {
	read, write := io.Pipe()
	written := make(chan error, 1)
	go func() {
		var err error
		a.sums, a.files, err = writeLines(ctx, write, s.o.lines)
		write.CloseWithError(err) // nil ends the stream
		written <- err
	}()
	var mu sync.Mutex
	sent := map[int64]time.Time{} // by the offset of the post
	_, err := s.client.Add(ctx, read, client.AddOptions{
		Type: queueType, Key: client.NewKey(), BodyBytes: bodyBytes, InFlight: posters,
		Body: func(b client.AddedBody, _ []byte) error {
			mu.Lock()
			defer mu.Unlock()
			sent[b.Offset] = time.Now()
			return nil
		},
		Acknowledged: func(b client.AddedBody) {
			mu.Lock()
			defer mu.Unlock()
			a.posts = append(a.posts, time.Since(sent[b.Offset]))
			s.posted.Add(int64(b.Count))
		},
	})
	read.CloseWithError(err)
	return errors.Join(err, <-written)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// watch prints the progress, kills the server after certain shares of the work, and returns when all lines are posted
// and completed.
func (s *demo) watch(ctx context.Context, posted <-chan struct{}) error {
	jitter := rand.Float64() / float64(s.o.kills+1)
	for shown := (time.Time{}); ; pause(ctx, 50*time.Millisecond) {
		if err := ctx.Err(); err != nil {
			return err
		}
		stats, err := s.client.Stats(ctx)
		if err != nil {
			return err
		}
		completed, unfinished := stats.Jobs["completed"], stats.Jobs["pending"]+stats.Jobs["active"]+stats.Jobs["deferred"]
		if time.Since(shown) > time.Second {
			fmt.Printf("posted %9d   completed %9d   waiting or active %9d   kills %d\n", s.posted.Load(), completed, unfinished, s.killed)
			shown = time.Now()
		}
		// Posting counts as half of the work, so that the first kills happen while lines are posted.
		share := float64(s.posted.Load()+completed) / float64(2*s.o.lines)
		if s.killed < s.o.kills && share > (float64(s.killed)+0.3+jitter)/float64(s.o.kills) {
			s.killed++
			if err := s.kill(ctx); err != nil {
				return fmt.Errorf("kill %d: %w", s.killed, err)
			}
			continue
		}
		select {
		case <-posted:
			if unfinished == 0 && s.killed == s.o.kills {
				return nil
			}
		default:
		}
	}
}

func (s *demo) kill(ctx context.Context) error {
	pid := s.server.Pid()
	if err := s.server.Kill(); err != nil {
		return err
	}
	start := time.Now()
	if err := s.server.Start(ctx); err != nil {
		return err
	}
	fmt.Printf("kill -9 %d: restarted, replayed and ready after %v\n", pid, time.Since(start).Round(time.Millisecond))
	return nil
}
