package main

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/terminal"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/opsqueue/stockclient"
	"github.com/daybookq/daybook/opsqueue/wire"
)

var opsqueueListening = regexp.MustCompile(`"address":"([^"]+)","[^}]*"message":"listening for clients of Opsqueue"`)

// opsqueueAddress returns the address of --opsqueue, which is in the log.
func (s *server) opsqueueAddress(t *testing.T) string {
	t.Helper()
	found := opsqueueListening.FindStringSubmatch(s.log.String())
	testkit.MustHold(t, found != nil, "the log has no address for clients of Opsqueue", s.log)
	return found[1]
}

// runSubmission runs a submission with two consumers.
func runSubmission(ctx context.Context, t *testing.T, p *stockclient.Producer, consumers ...*stockclient.Consumer) {
	t.Helper()
	objects := &stockclient.ObjectStore{}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, len(consumers))
	for _, c := range consumers {
		go func() {
			ended <- c.RunEachChunk(ctx, objects, wire.Strategy{Base: wire.Random}, func(_ wire.ReservedChunk, input []byte) ([]byte, error) {
				return append(input, '!'), nil
			})
		}()
	}
	chunks := make([][]byte, 50)
	for i := range chunks {
		chunks[i] = fmt.Append(nil, i)
	}
	results, err := p.Run(ctx, objects, stockclient.Work{Chunks: chunks})
	testkit.Check(t, err)
	for i, got := range results {
		testkit.Equal(t, string(got), fmt.Sprintf("%d!", i), "result", i)
	}
	cancel()
	for range consumers {
		testkit.Failed(t, <-ended, context.Canceled)
	}
}

// TestServeOpsqueue: with --opsqueue, or its variable, clients of Opsqueue use the same queues as clients of Daybook,
// as docs/how-to/from-opsqueue.md describes.
func TestServeOpsqueue(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	data := filepath.Join(t.TempDir(), "data")
	v := &stockclient.Violations{}
	s := servingWith(t, data, []string{"DAYBOOK_OPSQUEUE=127.0.0.1:0"}, "--opsqueue-max-chunk-retries", "1")
	p := stockclient.NewProducer(s.opsqueueAddress(t), v)
	defer p.Close()
	c := stockclient.NewConsumer(s.opsqueueAddress(t), v)
	defer c.Close()
	runSubmission(ctx, t, p, c)
	c.Disconnect() // nobody waits for its reservation any more
	testkit.Equal(t, testkit.Must(client.New(s.url, client.Options{}).Queue(ctx, "opsqueue", "chunk"))(t).Counts["completed"], 50)
	id, err := p.Insert(ctx, wire.InsertSubmission{Chunks: wire.ChunkContents{SeeObjectStorage: &wire.SeeObjectStorage{Prefix: "kept", Count: 1}}}, nil)
	testkit.NoError(t, err)
	chunks := testkit.Must(c.Reserve(ctx, 1, wire.Strategy{}))(t)
	testkit.Equal(t, s.end(t, syscall.SIGTERM), terminal.ExitOK, "exit code")

	s = serving(t, data, "--opsqueue", "127.0.0.1:0", "--opsqueue-heartbeat-interval", "1s", "--opsqueue-max-missable-heartbeats", "7", "--opsqueue-max-submissions-returned", "1")
	p = stockclient.NewProducer(s.opsqueueAddress(t), v)
	defer p.Close()
	last := stockclient.NewConsumer(s.opsqueueAddress(t), v)
	defer last.Close()
	init := testkit.Must(last.Init(ctx))(t)
	testkit.Holds(t, init.HeartbeatInterval == wire.Duration(time.Second) && init.MaxMissableHeartbeats == 7, init)
	testkit.Check(t, last.Complete(ctx, chunks[0].Chunk.ChunkID, nil))
	if _, err := p.Results(ctx, &stockclient.ObjectStore{}, id); err == nil || !strings.Contains(err.Error(), "is completed, and the object") {
		t.Errorf("the end of the submission: %v", err) // its consumer stored no object
	}
	user := wire.Metadata{"user": 42}
	for i := range 2 {
		testkit.Must(p.Insert(ctx, wire.InsertSubmission{StrategicMetadata: user, Chunks: wire.ChunkContents{SeeObjectStorage: &wire.SeeObjectStorage{Prefix: fmt.Sprint("open", i), Count: 1}}}, nil))(t)
	}
	testkit.Fails(p.LookupByMetadata(ctx, user))(t, stockclient.TooManyError(1)) // a lookup of two submissions
	for _, violation := range v.List() {
		t.Error(violation)
	}
}

// TestServeWithoutOpsqueue: without the setting there is no second listener.
func TestServeWithoutOpsqueue(t *testing.T) {
	testkit.Lacks(t, serving(t, filepath.Join(t.TempDir(), "data")).log.String(), "clients of Opsqueue")
}

// TestServeOpsqueueRefusals: settings that are refused.
func TestServeOpsqueueRefusals(t *testing.T) {
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--opsqueue", "somewhere"}, terminal.ExitUsage, "somewhere"},
		{[]string{"--opsqueue", "0.0.0.0:0"}, terminal.ExitUsage, "--insecure"},
		{[]string{"--opsqueue", l.Addr().String()}, terminal.ExitListen, "--opsqueue"},
		{[]string{"--opsqueue", "127.0.0.1:0", "--opsqueue-max-chunk-retries", "0"}, terminal.ExitUsage, "--opsqueue-max-chunk-retries"},
		{[]string{"--opsqueue", "127.0.0.1:0", "--opsqueue-max-missable-heartbeats", "-1"}, terminal.ExitUsage, "--opsqueue-max-missable-heartbeats"},
		{[]string{"--opsqueue", "127.0.0.1:0", "--opsqueue-max-submissions-returned", "0"}, terminal.ExitUsage, "--opsqueue-max-submissions-returned"},
		{[]string{"--opsqueue", "127.0.0.1:0", "--opsqueue-heartbeat-interval", "1ms"}, terminal.ExitUsage, "--opsqueue-heartbeat-interval"},
		{[]string{"--opsqueue", "127.0.0.1:0", "--opsqueue-reservation-expiration", "0s"}, terminal.ExitUsage, "--opsqueue-reservation-expiration"},
	} {
		r := execute(t, "", append([]string{"serve", "--listen", "127.0.0.1:0", "--init", "--data", t.TempDir()}, c.args...)...)
		r.ends(t, c.code, c.want)
	}
}

// TestOpsqueueKey: once the server has keys, the listener acts as the key of --opsqueue-key. Without it, or with one that lacks a
// role, has expired or was revoked, clients are refused. When it is revoked, open connections end and their chunks are available.
func TestOpsqueueKey(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	v := &stockclient.Violations{}
	submission := func(prefix string) wire.InsertSubmission {
		return wire.InsertSubmission{Chunks: wire.ChunkContents{SeeObjectStorage: &wire.SeeObjectStorage{Prefix: prefix, Count: 1}}}
	}
	s := serving(t, filepath.Join(dir, "data"), "--opsqueue", "127.0.0.1:0")
	p := stockclient.NewProducer(s.opsqueueAddress(t), v)
	testkit.Must(p.Insert(ctx, submission("before"), nil))(t)
	boss := keyFile(t, filepath.Join(dir, "boss.key"), strings.TrimSpace(ok(t, "key", "create", "boss", "--role", "admin", "--server", s.url)))
	as := func(args ...string) string { return ok(t, append(args, "--server", s.url, "--key-file", boss)...) }
	refused := func(p *stockclient.Producer, why string) {
		t.Helper()
		_, err := p.Insert(ctx, submission("x"), nil)
		testkit.Failed(t, err, "status 403")
		testkit.Failed(t, p.Cancel(ctx, 1), "status 403")
		_, err = p.Count(ctx)
		testkit.Failed(t, err, "status 403")
		_, err = p.ServerVersion(ctx)
		testkit.NoError(t, err)
		testkit.Eventually(t, "the log says why", func() bool { return strings.Contains(s.log.String(), why) })
	}
	refused(p, "--opsqueue-key names none")
	p.Close()
	s.end(t, syscall.SIGTERM)

	s = serving(t, s.data, "--opsqueue", "127.0.0.1:0", "--opsqueue-key", "ops")
	p = stockclient.NewProducer(s.opsqueueAddress(t), v)
	defer p.Close()
	refused(p, "the key ops of --opsqueue-key does not exist")
	as("key", "create", "ops", "--role", "producer")
	testkit.Must(p.Insert(ctx, submission("created"), nil))(t)
	testkit.Eventually(t, "the log says that consumers need another role", func() bool { return strings.Contains(s.log.String(), "has the roles producer; this needs one of") })
	as("key", "revoke", "ops")
	as("key", "create", "ops", "--role", "producer", "--role", "worker")
	c := stockclient.NewConsumer(s.opsqueueAddress(t), v)
	defer c.Close()
	chunks := testkit.Must(c.Reserve(ctx, 1, wire.Strategy{}))(t)
	testkit.Equal(t, len(chunks), 1)
	active := func() bool {
		return strings.Contains(as("jobs", "--client", "opsqueue", "--type", "chunk", "--status", "active"), "opsqueue")
	}
	testkit.Holds(t, active(), "nobody holds the chunk")
	as("key", "revoke", "ops")
	_, err := p.Insert(ctx, submission("revoked"), nil)
	testkit.Failed(t, err, "status 403")
	testkit.Eventually(t, "the chunk is available again", func() bool { return !active() })
}
