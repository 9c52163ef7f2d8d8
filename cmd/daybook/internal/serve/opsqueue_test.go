package serve

import (
	"context"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/api"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// acceptor is a listener to which nobody connects.
type acceptor struct {
	accepts atomic.Int64
	closed  chan struct{}
}

func (a *acceptor) Accept() (net.Conn, error) {
	a.accepts.Add(1)
	<-a.closed
	return nil, net.ErrClosed
}
func (a *acceptor) Addr() net.Addr { return &net.TCPAddr{} }
func (a *acceptor) Close() error {
	select {
	case <-a.closed:
	default:
		close(a.closed)
	}
	return nil
}

// TestOpsqueueWaitsForKeys: while a start applies the journal, it may know keys that were revoked and miss others, so the listener
// for clients of Opsqueue accepts no connection.
func TestOpsqueueWaitsForKeys(t *testing.T) {
	dir := t.TempDir()
	run := func(o ingest.Options) *runningEngine {
		o.Dir = dir
		engine := testkit.Must(ingest.Open(o))(t)
		ctx, stop := context.WithCancel(context.Background())
		e := &runningEngine{Engine: engine, stop: stop, ended: make(chan struct{})}
		go func() { e.err = engine.Run(ctx); close(e.ended) }()
		return e
	}
	end := func(e *runningEngine) { e.stop(); <-e.ended; testkit.NoError(t, e.err) }
	synctest.Test(t, func(t *testing.T) {
		e := run(ingest.Options{})
		testkit.MustHold(t, untilReady(t.Context(), e), "the engine is not ready")
		key := job.Key{Roles: job.RolesOf(job.RoleAdmin), Generation: 1, Sum: job.KeySum{1}}
		_, _, err := e.PutDocument(t.Context(), job.PutDocument{Kind: job.KeyDocument, Name: "ops", Summary: "admin", Document: key.Document()})
		testkit.NoError(t, err)
		end(e)
		testkit.NoError(t, os.RemoveAll(ingest.StoreDir(dir))) // so that the next start applies all of the journal

		replay := make(chan struct{})
		e = run(ingest.Options{Store: store.Options{BeforeApply: func(uint64) { <-replay }}})
		s := &serverRun{Flags: NewFlags(api.Version{}), log: zerolog.Nop(), files: descriptors{opsqueue: 1}}
		s.opsqueueKey = "ops"
		l := &acceptor{closed: make(chan struct{})}
		closeListener := s.serveOpsqueue(e, l, time.Second, func() { t.Error("the listener has failed") })
		held := s.listenerKey(e)
		permits := func() error { return held.permit(job.RolesOf(job.RoleProducer)) }

		time.Sleep(time.Minute)
		testkit.Holds(t, !e.KeysKnown() && l.accepts.Load() == 0, "before the keys are known, the listener has accepted", l.accepts.Load(), "connections")
		testkit.Failed(t, permits(), "does not exist") // what a client would get

		close(replay)
		time.Sleep(time.Second)
		testkit.Holds(t, e.KeysKnown() && l.accepts.Load() == 1, "the listener does not accept connections")
		testkit.NoError(t, permits())

		_, _, err = e.DeleteDocument(t.Context(), job.DeleteDocument{Kind: job.KeyDocument, Name: "ops"})
		testkit.NoError(t, err)
		testkit.Equal(t, job.KeyOf(asKey{e, held}.with(t.Context())).By().Name, "ops", "a command that was permitted before the key was revoked")
		testkit.Failed(t, permits(), "revoked")
		testkit.NoError(t, closeListener())
		end(e)
	})
}
