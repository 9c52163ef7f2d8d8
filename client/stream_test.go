package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/internal/testkit"
)

// cutter forwards connections to a server, and can cut all of them.
type cutter struct {
	url string

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

func newCutter(t *testing.T, url string) *cutter {
	t.Helper()
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	c := &cutter{url: "http://" + l.Addr().String(), conns: map[net.Conn]struct{}{}}
	var forwarding sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		c.cut()
		forwarding.Wait()
	})
	forwarding.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
			if err != nil {
				in.Close()
				continue
			}
			c.add(in, out)
			forwarding.Go(func() { c.forward(in, out) })
			forwarding.Go(func() { c.forward(out, in) })
		}
	})
	return c
}

func (c *cutter) add(conns ...net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range conns {
		c.conns[conn] = struct{}{}
	}
}

func (c *cutter) forward(to, from net.Conn) {
	io.Copy(to, from)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range []net.Conn{to, from} {
		conn.Close()
		delete(c.conns, conn)
	}
}

// cut closes all connections.
func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.conns {
		conn.Close()
	}
}

// TestWorkerInABrokenStream: the connections of a worker break again and again. Each job runs once, because the worker
// connects again and names the claims that it has, and all outcomes are reported.
func TestWorkerInABrokenStream(t *testing.T) {
	const jobs = 3000
	s := daybooktest.Start(t)
	c := newCutter(t, s.URL)
	var lines strings.Builder
	for i := range jobs {
		fmt.Fprintln(&lines, i)
	}
	testkit.Must(s.Client.AddLines(t.Context(), []byte(lines.String()), client.AddOptions{}))(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	runs := map[string]int{}
	var left atomic.Int32
	left.Store(jobs)
	var cuts atomic.Int32
	w := &client.Worker{Client: client.New(c.url, client.Options{}), RunnerID: "r", Concurrency: 8, Handler: func(_ context.Context, j *client.Job) (client.Outcome, error) {
		mu.Lock()
		runs[j.ID]++
		n := len(runs)
		mu.Unlock()
		if n%500 == 250 {
			c.cut()
			cuts.Add(1)
		}
		time.Sleep(time.Millisecond) // real time: jobs run while the worker connects again
		return client.Outcome{}, nil
	}, OnEvent: func(e client.Event) {
		if e.Job == nil {
			return
		}
		if e.Err != nil {
			t.Errorf("job %s: %v", e.Job.ID, e.Err)
		}
		if left.Add(-1) == 0 {
			stop()
		}
	}}
	testkit.Check(t, w.Run(ctx))
	if got := counts(t, s); got["completed"] != jobs {
		t.Errorf("%v", got)
	}
	if cuts.Load() < 5 {
		t.Errorf("%d cuts", cuts.Load())
	}
	for id, n := range runs {
		if n != 1 {
			t.Errorf("job %s ran %d times", id, n)
		}
	}
}

// TestStreamEnds: a request whose stream ends returns ErrUnknown, and later requests are sent over HTTP.
func TestStreamEnds(t *testing.T) {
	s := daybooktest.Start(t)
	c := newCutter(t, s.URL)
	stream := testkit.Must(client.New(c.url, client.Options{}).OpenStream(t.Context(), client.StreamOptions{RunnerID: "r"}))(t)
	testkit.Must(s.Client.AddLines(t.Context(), []byte("a\nb\n"), client.AddOptions{}))(t)
	got := make(chan *client.Claim, 2)
	testkit.Must(stream.Subscribe(t.Context(), client.SubscribeOptions{Credit: 2, Take: func(c *client.Claim) { got <- c }}))(t)
	claim := <-got
	if len(claim.Jobs) != 2 || string(claim.Jobs[0].Payload) != "a" || claim.Jobs[1].ClaimID != claim.ID {
		t.Fatalf("%+v", claim)
	}
	over := stream.Client()
	if held, err := over.TickleClaim(t.Context(), claim.ID, client.TickleOptions{}); err != nil || held.Held != 2 {
		t.Errorf("%+v, %v", held, err)
	}
	results, err := over.CompleteMany(t.Context(), claim.ID, []client.JobOutcome{{JobID: claim.Jobs[0].ID, Outcome: client.TextOutput("x")}})
	if err != nil || len(results) != 1 || results[0].Status != "completed" {
		t.Errorf("%+v, %v", results, err)
	}
	c.cut()
	<-stream.Done()
	if stream.Err() == nil {
		t.Error("a stream that has ended has no error")
	}
	if _, err := stream.Subscribe(t.Context(), client.SubscribeOptions{Credit: 1, Take: func(*client.Claim) {}}); !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("subscribe: %v", err)
	}
	// The other job has returned to its queue, so the claim holds no job.
	for {
		_, err := over.TickleClaim(t.Context(), claim.ID, client.TickleOptions{})
		if errors.Is(err, client.ErrClaimLost) {
			break
		}
		testkit.NoError(t, err)
	}
	stream.Close() // again
}

// TestSubscribeRequires: a subscription without its required fields is refused before it is sent.
func TestSubscribeRequires(t *testing.T) {
	s := daybooktest.Start(t)
	stream := testkit.Must(s.Client.OpenStream(t.Context(), client.StreamOptions{RunnerID: "r"}))(t)
	defer stream.Close()
	for _, o := range []client.SubscribeOptions{{Credit: 1}, {Take: func(*client.Claim) {}}} {
		if _, err := stream.Subscribe(t.Context(), o); !errors.Is(err, client.ErrBadRequest) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
