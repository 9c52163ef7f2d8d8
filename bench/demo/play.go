package main

import (
	"bytes"
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
	"github.com/daybookq/daybook/job"
)

type options struct {
	binary  string
	lines   int
	runners int
	kills   int
	data    string
}

const (
	// linesPerPost is the size of a usual bulk post.
	linesPerPost = 1000
	posters      = 4
	queueType    = "count-words"
)

// demo is the state of a demo.
type demo struct {
	o      options
	server *daybooktest.Process
	client *client.Client

	mu       sync.Mutex
	receipts []receipt
	posts    []time.Duration

	posted, again atomic.Int64
	killed        int
}

// receipt is an acknowledged post: the ids of the lines first … first+count-1.
type receipt struct {
	first, count int
	id           job.ID
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
		a.sums, a.files, posting = s.post(ctx)
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
	a.again, a.kills, a.posts = s.again.Load(), s.killed, s.posts
	return a, s.audit(ctx, a)
}

// post posts all lines, a thousand per request, over several connections.
func (s *demo) post(ctx context.Context) (sums [][8]byte, files int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	read, write := io.Pipe()
	go func() {
		sums, files, err = writeLines(ctx, write, s.o.lines)
		write.CloseWithError(err) // nil ends the stream
	}()
	type body struct {
		first int
		lines []byte
	}
	bodies := make(chan body)
	errs := make(chan error, posters)
	for range posters {
		go func() {
			for b := range bodies {
				if err := s.postBody(ctx, b.first, b.lines); err != nil {
					cancel()
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	splitErr := splitLines(read, linesPerPost, func(first int, lines []byte) error {
		select {
		case bodies <- body{first, lines}:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	close(bodies)
	read.CloseWithError(splitErr)
	for range posters {
		splitErr = errors.Join(<-errs, splitErr)
	}
	return sums, files, splitErr
}

// postBody posts lines until they are acknowledged. If a kill loses the answer, nobody knows whether the lines are
// stored. Then postBody posts them again, and they may be stored twice.
func (s *demo) postBody(ctx context.Context, first int, lines []byte) error {
	for {
		start := time.Now()
		got, err := s.client.AddLines(ctx, lines, client.AddOptions{Type: queueType})
		if err == nil {
			id, err := job.ParseID(got.FirstID)
			if err != nil {
				return err
			}
			s.mu.Lock()
			s.receipts = append(s.receipts, receipt{first, got.Count, id})
			s.posts = append(s.posts, time.Since(start))
			s.mu.Unlock()
			s.posted.Add(int64(got.Count))
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, client.ErrUnknown) {
			s.again.Add(int64(bytes.Count(lines, []byte{'\n'})))
		} else if !errors.Is(err, client.ErrUnavailable) && !errors.Is(err, client.ErrOverloaded) {
			return fmt.Errorf("post lines from %d on: %w", first, err)
		}
		pause(ctx, 20*time.Millisecond)
	}
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
