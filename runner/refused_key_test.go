package runner

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
)

// keyed creates an admin's key, and a key with the given limits for the runners of r. set changes the text of the latter.
func (r *rig) keyed(limits client.KeyLimits) (boss *client.Client, set func(string)) {
	r.Helper()
	with := func(key string) *client.Client { return client.New(r.server.URL, client.Options{Key: key}) }
	boss = with(testkit.Must(r.CreateKey(r.Context(), client.KeyRequest{Name: "boss", KeyLimits: client.KeyLimits{Roles: []string{"admin"}}}))(r.T).Text)
	made := testkit.Must(boss.CreateKey(r.Context(), client.KeyRequest{Name: "key", KeyLimits: limits}))(r.T)
	var text atomic.Pointer[string]
	text.Store(&made.Text)
	r.Client = client.New(r.server.URL, client.Options{KeySource: func(context.Context) (string, error) { return *text.Load(), nil }})
	return boss, func(next string) { text.Store(&next) }
}

var workerKey = client.KeyLimits{Roles: []string{"worker"}}

// TestRevokedKey: when its key is revoked, a runner ends its runs and itself, with the refusal, and its jobs return to their
// queues; also if it drains already.
func TestRevokedKey(t *testing.T) {
	for name, draining := range map[string]bool{"running": false, "draining": true} {
		t.Run(name, func(t *testing.T) {
			r := start(t, "--runner-heartbeat", "1s")
			boss, _ := r.keyed(workerKey)
			began := filepath.Join(t.TempDir(), "began")
			s := r.settings(map[string]string{"x": "touch " + began + "; sleep 600"})
			s.UntilIdle, s.DrainTimeout, s.Sandbox = 0, time.Hour, "off"
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w := r.new(s)
			ended := make(chan error, 1)
			go func() { ended <- w.Run(ctx) }()
			made := testkit.Must(boss.Create(t.Context(), client.NewJob{Type: "x"}))(t)
			r.until("the job runs", func() bool { return testkit.Must(filepath.Glob(began))(t) != nil })
			if draining {
				cancel()
			}
			testkit.NoError(t, boss.RevokeKey(t.Context(), "key"))
			err := <-ended
			refused, is := errors.AsType[*client.Error](err)
			testkit.Holds(t, is && refused.WrongKey() && errors.Is(err, client.ErrForbidden), err)
			r.wantEmpty(w)
			r.until("the server has returned the job", func() bool {
				status := testkit.Must(boss.Job(t.Context(), made.ID))(t).Status
				return status == "pending" || status == "deferred"
			})
		})
	}
}

// TestRefusedAtOnce: a runner with a wrong key, or with one that lacks a role or is for other clients, ends with the refusal.
func TestRefusedAtOnce(t *testing.T) {
	r := start(t)
	boss, set := r.keyed(client.KeyLimits{Roles: []string{"worker"}, Clients: []string{"acme"}, RunnerPrefix: "r"})
	s := r.settings(map[string]string{"x": "cat"})
	s.UntilIdle = 0
	s.ID, s.Clients = "r-1", []string{"umbra"}
	testkit.Failed(t, r.new(s).Run(t.Context()), client.ErrForbidden, "umbra")
	producer := testkit.Must(boss.CreateKey(t.Context(), client.KeyRequest{Name: "producer", KeyLimits: client.KeyLimits{Roles: []string{"producer"}}}))(t)
	set(producer.Text)
	testkit.Failed(t, r.new(s).Run(t.Context()), client.ErrForbidden, "role_missing")
	testkit.NoError(t, boss.RevokeKey(t.Context(), "producer"))
	for range 15 { // beyond the limit of wrong keys, the answer is another one
		testkit.Failed(t, r.new(s).Run(t.Context()), client.ErrForbidden)
	}
}

// TestRotatedKey: a runner goes on with the key that its file has after a rotation, although the server has refused the one
// before.
func TestRotatedKey(t *testing.T) {
	r := start(t, "--runner-heartbeat", "1s")
	boss, set := r.keyed(workerKey)
	s := r.settings(map[string]string{"x": "cat"})
	s.UntilIdle = 0
	w, stop := r.begin(s)
	r.until("it is registered", func() bool { return w.Totals().Held == 0 && registeredAt(boss, t) })
	set(testkit.Must(boss.RotateKey(t.Context(), "key", 0))(t).Text)
	testkit.Must(boss.Create(t.Context(), client.NewJob{Type: "x", Payload: []byte("a")}))(t)
	r.until("the job is done", func() bool { return w.Totals().Ended["ok"] == 1 })
	stop()
}

func registeredAt(c *client.Client, t *testing.T) bool {
	doc, err := c.Runner(t.Context(), "r")
	return err == nil && doc.State == client.RunnerAlive
}
