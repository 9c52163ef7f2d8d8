package worker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/client/encryption"
	"github.com/daybookq/daybook/client/internal/clienttest"
	"github.com/daybookq/daybook/client/internal/testkit"
	"github.com/daybookq/daybook/client/worker"
)

// encrypting returns a client of a server with a new key.
func encrypting(t *testing.T, s *daybooktest.Server) *client.Client {
	t.Helper()
	return client.New(s.URL, client.Options{Codec: testkit.Must(encryption.Parse([]byte(encryption.NewKey())))(t)})
}

// TestEncryptedJobs: handlers get the payloads as they were, by streams and by requests; the server has neither outputs nor
// errors in plain text.
func TestEncryptedJobs(t *testing.T) {
	for name, noStream := range map[string]bool{"stream": false, "requests": true} {
		t.Run(name, func(t *testing.T) {
			s := daybooktest.Start(t)
			c, ctx := encrypting(t, s), t.Context()
			good := testkit.Must(c.Create(ctx, client.TextJob("x", "secret")))(t)
			bad := testkit.Must(c.Create(ctx, client.TextJob("x", "bad")))(t)
			stop := start(t, &worker.Worker{Client: c, NoStream: noStream, Concurrency: 2, Handler: func(_ context.Context, j *client.Job) (client.Outcome, error) {
				if string(j.Payload) == "bad" {
					return client.Outcome{}, worker.Fail(errors.New("hidden " + strings.Repeat("x", 100_000)))
				}
				return client.TextOutput("output of " + string(j.Payload)), nil
			}})
			out := testkit.Must(c.Output(ctx, good.ID, time.Minute))(t)
			testkit.Equal(t, string(out.Bytes), "output of secret")
			testkit.Must(c.Output(ctx, bad.ID, time.Minute))(t)
			testkit.Holds(t, strings.HasPrefix(testkit.Must(c.Job(ctx, bad.ID))(t).Error, "hidden xxx"))
			testkit.NoError(t, stop())
			for _, id := range []string{good.ID, bad.ID} {
				testkit.Lacks(t, string(testkit.Must(s.Client.Job(ctx, id))(t).Text), "secret", "hidden")
			}
		})
	}
}

// warnings is a log that a test may read while it is written.
type warnings struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *warnings) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(b)
}

func (w *warnings) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// TestUndecodableJob: a worker without the key returns a job to its queue when it stops. The job costs no attempt, the log
// has the reason once, and a worker with the key runs it.
func TestUndecodableJob(t *testing.T) {
	for name, noStream := range map[string]bool{"stream": false, "requests": true} {
		t.Run(name, func(t *testing.T) {
			s := daybooktest.Start(t)
			c, ctx := encrypting(t, s), t.Context()
			made := testkit.Must(c.Create(ctx, client.TextJob("x", "secret")))(t)
			var log warnings
			var ended events
			stop := start(t, &worker.Worker{
				Client: encrypting(t, s), NoStream: noStream, Logger: slog.New(slog.NewTextHandler(&log, nil)), OnEvent: ended.add,
				Handler: func(context.Context, *client.Job) (client.Outcome, error) {
					t.Error("the handler was called")
					return client.Outcome{}, nil
				},
			})
			testkit.Eventually(t, "the worker says why", func() bool { return strings.Contains(log.String(), made.ID) })
			testkit.NoError(t, stop())
			testkit.Failed(t, ended.ends()[made.ID].Err, client.ErrUndecodable, encryption.ErrNoKey)
			testkit.Holds(t, strings.Count(log.String(), "level=WARN") == 1 && strings.Contains(log.String(), "key"), log.String())
			j := testkit.Must(c.Job(ctx, made.ID))(t)
			testkit.Holds(t, j.Status == "pending" && j.RunAttempts == 0 && len(j.Attempts) == 0, j.Status, j.RunAttempts, j.Attempts)
			stop = start(t, &worker.Worker{Client: c, NoStream: noStream, Handler: well})
			testkit.Must(c.Output(ctx, made.ID, time.Minute))(t)
			testkit.NoError(t, stop())
		})
	}
}

// TestEncryptedJobsWithoutKeys: a worker without a Codec returns encrypted jobs as one without their key does, and runs a job whose
// payload only begins like an encrypted one. The job that follows has an output as its payload.
func TestEncryptedJobsWithoutKeys(t *testing.T) {
	for name, noStream := range map[string]bool{"stream": false, "requests": true} {
		t.Run(name, func(t *testing.T) {
			s := daybooktest.Start(t)
			c, ctx := encrypting(t, s), t.Context()
			made := testkit.Must(c.Create(ctx, client.NewJob{Type: "x", Payload: []byte("1"), Attributes: client.Attributes{OnComplete: &client.FollowOn{Type: "y"}}}))(t)
			first := testkit.Must(c.Claim(ctx, client.ClaimRequest{RunnerID: "r"}))(t)
			testkit.Must(c.Complete(ctx, made.ID, first.ID, client.TextOutput("2")))(t)
			testkit.Must(c.Create(ctx, client.TextJob("y", "secret")))(t)
			similar := testkit.Must(s.Client.Create(ctx, client.TextJob("z", "dbe1.p.0123456789abcdef.not encrypted, and long enough to be")))(t)
			var log warnings
			var ended events
			ran := make(chan string, 10)
			stop := start(t, &worker.Worker{
				Client: s.Client, NoStream: noStream, Concurrency: 10, Logger: slog.New(slog.NewTextHandler(&log, nil)), OnEvent: ended.add,
				Handler: func(_ context.Context, j *client.Job) (client.Outcome, error) {
					ran <- j.ID
					return client.Outcome{}, nil
				},
			})
			testkit.Must(s.Client.Output(ctx, similar.ID, time.Minute))(t)
			testkit.Eventually(t, "the worker says why", func() bool { return strings.Contains(log.String(), "the key with which it is encrypted is missing") })
			testkit.NoError(t, stop())
			testkit.Equal(t, <-ran, similar.ID)
			testkit.Equal(t, len(ran), 0, "handlers called with an encrypted payload")
			n := 0
			for j, err := range c.Jobs(ctx, client.JobsQuery{Type: "y"}) {
				testkit.NoError(t, err)
				testkit.Holds(t, j.Status == "pending" && j.RunAttempts == 0, j.Status, j.RunAttempts)
				n++
			}
			testkit.Equal(t, n, 2)
			for id, e := range ended.ends() {
				if id != similar.ID {
					testkit.Failed(t, e.Err, client.ErrUndecodable, encryption.ErrNoKey)
				}
			}
		})
	}
}

// TestUndecodablePause: a worker keeps a job that it cannot decode for five seconds, so that it does not claim the job again
// and again.
func TestUndecodablePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := clienttest.Runner(t, map[string]func(clienttest.Call) clienttest.Reply{
			"/jobs/claim": clienttest.Once(clienttest.Reply{Status: 200, Body: fmt.Sprintf(
				`{"claim_id":%q,"lease_ms":60000,"jobs":[{"job_id":%q,"status":"active","payload":"not encrypted"}]}`, clienttest.TestClaim, clienttest.TestID(0))}),
		})
		keys := testkit.Must(encryption.Parse([]byte(encryption.NewKey())))(t)
		began := time.Now()
		released := make(chan time.Duration, 10)
		stop := start(t, &worker.Worker{
			Client: fake.Client(client.Options{Codec: keys}), NoStream: true, Handler: well,
			OnEvent: func(e worker.Event) {
				if e.Job != nil {
					released <- time.Since(began)
				}
			},
		})
		took := <-released
		testkit.Holds(t, took >= 5*time.Second && took < 6*time.Second, "it was returned after", took)
		testkit.NoError(t, stop())
		testkit.Equal(t, len(fake.To("/jobs/{id}/release")), 1, "releases")
	})
}
