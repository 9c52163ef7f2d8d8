package api

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// beforeAwait calls a function once, before the first call to AwaitEnd.
type beforeAwait struct {
	jobReader
	once sync.Once
	call func(id job.ID)
}

func (b *beforeAwait) AwaitEnd(id job.ID) (*store.JobEnd, error) {
	b.once.Do(func() { b.call(id) })
	return b.jobReader.AwaitEnd(id)
}

// TestFollowGoesOnAfterDeletedJob: a job is deleted after a request that follows results has seen that the job has not
// ended, and before the request begins to wait for its end. The request then waits for the next job.
func TestFollowGoesOnAfterDeletedJob(t *testing.T) {
	before := &beforeAwait{}
	r := start(t, func(o *setup) {
		before.jobReader = o.jobReader
		o.jobReader = before
	})
	move := func(op job.Op, id job.ID) {
		moved, _ := testkit.Must2(r.engine.Move(context.Background(), job.Move{Op: op, Job: id}))(t)
		testkit.Equal(t, moved.Refusal, job.Granted, op, "of", id, moved)
	}
	before.call = func(first job.ID) { move(job.Delete, first) }
	id := r.post("/jobs/create", `{"batch":{"open":true},"jobs":[{},{}]}`).object(http.StatusCreated)["batch_id"].(string)
	first := testkit.Must(job.ParseID(id))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req := testkit.Must(http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/batches/"+id+"/results?follow=true", nil))(t)
	res := testkit.Must(http.DefaultClient.Do(req))(t) // the header arrives when the request waits
	defer res.Body.Close()
	move(job.Cancel, first.WithLine(1))
	line, err := bufio.NewReader(res.Body).ReadString('\n')
	want := fmt.Sprintf(`{"line":1,"job_id":"%s","status":"cancelled"`, first.WithLine(1))
	testkit.Holds(t, err == nil && len(line) >= len(want) && line[:len(want)] == want, line, err, "want", want)
}
