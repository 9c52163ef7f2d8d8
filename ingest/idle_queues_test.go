package ingest

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// TestIdleQueuesGo: a journaled command deletes a queue that has been without jobs for Options.QueueIdle, and the queue
// stays deleted after a restart. A queue that is paused or has jobs stays. Without the option every queue stays.
func TestIdleQueuesGo(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		e, stop := startWith(t, Options{Dir: dir, QueueIdle: time.Hour})
		of := func(typ string, retention int64) job.ID {
			c := lines(1)
			c.Groups[0].Type, c.Groups[0].RetentionMs = typ, retention
			made, _ := testkit.Must2(e.Create(ctx, c))(t)
			return made.Batch
		}
		there := func(want bool, types ...string) {
			t.Helper()
			for _, typ := range types {
				_, err := current(t, e).Queue("default", typ)
				testkit.Holds(t, (err == nil) == want && (err == nil || errors.Is(err, job.QueueNotFound)), "queue", typ, err)
			}
		}
		of("busy", 0)
		for _, typ := range []string{"idle", "paused"} {
			testkit.Must2(e.Move(ctx, job.Move{Op: job.Cancel, Job: of(typ, 0)}))(t)
		}
		testkit.Must2(e.Pause(ctx, job.Pause{Client: "default", Type: "paused", Paused: true}))(t)
		time.Sleep(time.Hour - 10*time.Second)
		there(true, "busy", "idle", "paused")
		wait, ok := e.untilIdle()
		testkit.Holds(t, ok && wait <= 11*time.Second, "the first idle queue goes in", wait, ok)
		time.Sleep(20 * time.Second)
		there(true, "busy", "paused")
		there(false, "idle")
		stop()

		e, stop = startWith(t, Options{Dir: dir})
		there(true, "busy", "paused")
		there(false, "idle")
		testkit.Must2(e.Pause(ctx, job.Pause{Client: "default", Type: "paused"}))(t)
		time.Sleep(2 * time.Hour)
		there(true, "busy", "paused")
		deleted, _ := testkit.Must2(e.DeleteQueue(ctx, job.DeleteQueue{Client: "default", Type: "paused"}))(t)
		testkit.Equal(t, deleted.Refusal, job.Granted, deleted)
		there(false, "paused")
		stop()
	})
}
