package main

import (
	"context"
	"path/filepath"
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

// opsqueueFlags are those of a node that serves clients of Opsqueue.
var opsqueueFlags = []string{"--opsqueue", "127.0.0.1:0", "--opsqueue-heartbeat-interval", "1s"}

// consumerOf returns a consumer that is connected to a server.
func consumerOf(t *testing.T, s *server, v *stockclient.Violations) *stockclient.Consumer {
	t.Helper()
	c := stockclient.NewConsumer(s.opsqueueAddress(t), v)
	t.Cleanup(c.Close)
	return c
}

// insertChunks inserts a submission at a server.
func insertChunks(ctx context.Context, t *testing.T, s *server, v *stockclient.Violations, count int64) wire.SubmissionID {
	t.Helper()
	p := stockclient.NewProducer(s.opsqueueAddress(t), v)
	defer p.Close()
	id, err := p.Insert(ctx, wire.InsertSubmission{Chunks: wire.ChunkContents{SeeObjectStorage: &wire.SeeObjectStorage{Prefix: "p", Count: count}}}, nil)
	testkit.NoError(t, err)
	return id
}

// TestServeOpsqueueMoves: the node with the listener dies while consumers hold chunks, and another node gets the listener.
// The submission completes, and each chunk ran once: a consumer that is alive reports to the other node, and the chunks of
// one that died are available again after 30 seconds. Restarts of other nodes return nothing, and a second listener is
// refused.
func TestServeOpsqueueMoves(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	v := &stockclient.Violations{}
	dir := t.TempDir()
	debug := []string{"--log-level", "debug"}
	n1 := startNode(t, "n1", filepath.Join(dir, "n1"), append(append(opsqueueFlags, debug...), "--cluster-init")...)
	n2 := startNode(t, "n2", filepath.Join(dir, "n2"), append(debug, "--join", n1.address)...)
	n3 := startNode(t, "n3", filepath.Join(dir, "n3"), append(debug, "--join", n1.address)...)
	n1.awaitVoters(t, 3)
	const chunks = 6
	id := insertChunks(ctx, t, n1.server, v, chunks)
	alive, dead := consumerOf(t, n1.server, v), consumerOf(t, n1.server, v)
	reported := testkit.Must(alive.Reserve(ctx, 2, wire.Strategy{}))(t)
	lost := testkit.Must(dead.Reserve(ctx, 2, wire.Strategy{}))(t)
	testkit.MustHold(t, len(reported) == 2 && len(lost) == 2, reported, lost)

	// Another node starts again, and the leader looks for chunks of processes that have ended.
	looks := func() int { return strings.Count(n1.log.String(), "no process that has ended holds chunks") }
	testkit.Eventually(t, "the leader has looked", func() bool { return looks() > 0 })
	before := looks()
	testkit.Equal(t, n2.end(t, syscall.SIGTERM), terminal.ExitOK)
	testkit.Contains(t, failed(t, append([]string{"serve", "--node", "n2", "--data", n2.data, "--listen", "127.0.0.1:0", "--cluster-listen", n2.address, "--blobs", "none"}, opsqueueFlags...)...),
		"node n1 of the cluster has --opsqueue", "next step")
	n2 = n2.again(t, debug...)
	testkit.Eventually(t, "the leader has looked again", func() bool { return looks() > before })
	queue := func(n *node) map[string]int64 {
		return testkit.Must(client.New(n.url, client.Options{}).Queue(ctx, "opsqueue", "chunk"))(t).Counts
	}
	testkit.Equal(t, queue(n2)["active"], 4, "chunks that consumers hold after the restart of another node")

	// The node with the listener dies with one of the consumers.
	n1.end(t, syscall.SIGKILL)
	dead.Close()
	testkit.Equal(t, n3.end(t, syscall.SIGTERM), terminal.ExitOK)
	n3 = n3.again(t, append(opsqueueFlags, debug...)...)
	moved := consumerOf(t, n3.server, v)
	for _, c := range reported {
		testkit.NoError(t, moved.Complete(ctx, c.Chunk.ChunkID, nil))
	}
	ran := map[int64]int{}
	for len(ran) < chunks-len(reported) {
		for _, c := range testkit.Must(moved.Reserve(ctx, 1, wire.Strategy{}))(t) {
			ran[c.Chunk.Index]++
			testkit.Equal(t, c.Chunk.Retries, 0, "failures of chunk", c.Chunk.Index)
			testkit.NoError(t, moved.Complete(ctx, c.Chunk.ChunkID, nil))
		}
	}
	for _, c := range reported {
		testkit.Equal(t, ran[c.Chunk.Index], 0, "runs of the chunk that was reported after the move", c.Chunk.Index)
	}
	for _, c := range lost {
		testkit.Equal(t, ran[c.Chunk.Index], 1, "runs of the chunk that a dead consumer held", c.Chunk.Index)
	}
	p := stockclient.NewProducer(n3.opsqueueAddress(t), v)
	defer p.Close()
	testkit.Eventually(t, "the submission is completed", func() bool {
		status := testkit.Must(p.Status(ctx, id))(t)
		return status.Completed != nil && status.Completed.ChunksTotal == chunks
	})
	testkit.Equal(t, queue(n2)["completed"], chunks)

	// The first node comes back, and cannot have the listener back meanwhile.
	testkit.Contains(t, failed(t, append([]string{"serve", "--node", "n1", "--data", n1.data, "--listen", "127.0.0.1:0", "--cluster-listen", n1.address, "--blobs", "none"}, opsqueueFlags...)...),
		"node n3 of the cluster has --opsqueue")
	n1.again(t)
	for _, violation := range v.List() {
		t.Error(violation)
	}
}

// TestServeOpsqueueNodeRestarts: chunks that a consumer held are available again after a single server became a node, and
// after a node has started again.
func TestServeOpsqueueNodeRestarts(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	v := &stockclient.Violations{}
	s := serving(t, filepath.Join(t.TempDir(), "n1"), opsqueueFlags...)
	id := insertChunks(ctx, t, s, v, 1)
	reserve := func(s *server) *stockclient.Consumer {
		c := consumerOf(t, s, v)
		got := testkit.Must(c.Reserve(ctx, 1, wire.Strategy{}))(t)
		testkit.MustEqual(t, len(got), 1)
		testkit.Equal(t, got[0].Chunk.ChunkID, wire.ChunkID{SubmissionID: id})
		testkit.Equal(t, got[0].Chunk.Retries, 0, "failures")
		return c
	}
	gone := reserve(s)
	s.end(t, syscall.SIGKILL) // first: the end of a connection is a failure of its chunks
	gone.Close()
	n := startNode(t, "n1", s.data, append(opsqueueFlags, "--cluster-init")...)
	gone = reserve(n.server)
	n.end(t, syscall.SIGKILL)
	gone.Close()
	n = n.again(t, opsqueueFlags...)
	last := reserve(n.server)
	testkit.NoError(t, last.Complete(ctx, wire.ChunkID{SubmissionID: id}, nil))
	p := stockclient.NewProducer(n.opsqueueAddress(t), v)
	defer p.Close()
	testkit.Eventually(t, "the submission is completed", func() bool { return testkit.Must(p.Status(ctx, id))(t).Completed != nil })
	for _, violation := range v.List() {
		t.Error(violation)
	}
}
