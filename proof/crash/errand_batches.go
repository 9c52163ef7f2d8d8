package crash

import (
	"context"
	"fmt"

	"github.com/daybookq/daybook/client"
)

// The rows of an errand about batches with attributes. It creates an open batch of two jobs, adds two more, and ends it in
// one of four ways. Every other batch is paused first. The ended batch must not change until the next errand of this kind,
// nor at the end. The rows need no random numbers.

// ownBatch is the batch of this errand.
type ownBatch struct {
	batches    int // batches so far
	batch      string
	batchJobs  [4]string // by their lines
	batchClaim string
	ends       batchEnd // its state after its end; without a status: there is no ended batch
}

// batchEnd is the part of a batch that must not change after its end.
type batchEnd struct {
	Status, Failed string
	EndedAt        int64
	Results        []string
}

// waitingBatch is a batch, and how many of its jobs no runner has claimed.
type waitingBatch struct {
	client.Batch
	Waiting int64
}

// batchWay is a way in which a batch ends: the onFailure of the batch, the batch's status, and the statuses of its second
// job, and of the third and fourth. The first job completes.
type batchWay struct {
	onFailure                  string
	cancelled                  bool // a request cancels the batch after two jobs have completed
	status, second, lastStatus string
}

var batchWays = []batchWay{
	{client.Continue, false, "completed", "completed", "completed"},
	{client.Continue, false, "failed", "failed", "completed"},
	{client.CancelRest, false, "failed", "failed", "cancelled"}, // the failure ends the batch
	{client.Continue, true, "cancelled", "completed", "cancelled"},
}

func (e *errands) batchRows() []row {
	e.batches++
	n, way := e.batches, batchWays[e.batches%len(batchWays)]
	paused, typ, name, metadata := n/len(batchWays)%2 == 0, e.name+"-batch", fmt.Sprint(e.name, " ", n), fmt.Sprintf("about %d \x00\xff", n)
	line := func(i int) client.NewJob {
		j := client.TextJob(typ, fmt.Sprintf("line %d of %d", i, n))
		j.LeaseMs = ownLeaseMs
		return j
	}
	b := client.NewBatch{
		Name: name, Meta: map[string]any{"errand": n}, Metadata: []byte(metadata), OnFailure: way.onFailure,
		Open: true, Paused: paused, Key: fmt.Sprintf("%s batch %d", e.name, n),
	}
	read := func(c call) (any, error) { return c.Batch(c, e.batch) }
	waiting := func(jobs int, status string) row {
		return row{
			verb: "read an open batch",
			request: func(c call) (any, error) {
				b, err := c.Batch(c, e.batch)
				return waitingBatch{b, b.Counts["pending"] + b.Counts["deferred"]}, err
			},
			answer: fields{"Status": status, "Open": true, "Count": jobs, "Waiting": jobs, "Name": name},
		}
	}
	open := row{verb: "read a batch that is open", request: read, answer: fields{"Status": "in_progress", "Open": true, "EndedAt": 0}}
	readMetadata := row{
		verb:    "read the metadata of a batch",
		request: func(c call) (any, error) { return c.BatchMetadata(c, e.batch) },
		answer:  metadata,
	}
	resume := func(c call) (any, error) { return c.ResumeBatch(c, e.batch) }
	add := func(lines ...client.NewJob) func(call) (any, error) {
		return func(c call) (any, error) {
			return c.AddToBatch(c, e.batch, lines, client.CreateOptions{Key: fmt.Sprintf("%s part %d of %d", e.name, len(lines), n)})
		}
	}
	// claim claims two jobs, and complete ends them.
	claim := func(from int) row {
		return row{
			verb: "claim jobs of a batch", numbered: true, ids: ids{"ID": &e.batchClaim},
			request: func(c call) (any, error) {
				return c.claims(client.ClaimRequest{Max: 2}, e.name, typ)
			},
			answer: func() any {
				var jobs []fields
				for i := from; i < from+2; i++ {
					jobs = append(jobs, fields{"ID": e.batchJobs[i], "BatchID": e.batch, "Payload": text(line(i).Payload), "Meta.errand": n})
				}
				return fields{"Jobs": jobs}
			},
		}
	}
	complete := func(from int, second string) row {
		return row{
			verb: "complete jobs of a batch", numbered: true,
			request: func(c call) (any, error) {
				one, two := e.batchJobs[from], e.batchJobs[from+1]
				last := client.TextOutput("of " + two)
				if second == "failed" {
					last = client.Outcome{Code: "failed", Error: "of " + two}
				}
				return c.CompleteMany(c, e.batchClaim, []client.JobOutcome{{JobID: one, Outcome: client.TextOutput("of " + one)}, {JobID: two, Outcome: last}})
			},
			answer: []fields{{"Status": "completed"}, {"Status": second}},
		}
	}

	rows := append([]row{e.readEndedBatch()}, e.deleteBatch()...)
	next := func(r ...row) { rows = append(rows, r...) }
	status := "in_progress"
	if paused {
		status = "paused"
	}
	next(row{
		verb: "create a batch", times: 2, ids: ids{"BatchID": &e.batch, "FirstID": &e.batchJobs[0], "LastID": &e.batchJobs[1]},
		request: func(c call) (any, error) {
			return c.CreateBatch(c, b, []client.NewJob{line(0), line(1)})
		},
		change: func() { e.ends = batchEnd{} },
		answer: func() any { return fields{"Count": 2, "FirstID": e.batch} },
	}, waiting(2, status), readMetadata)
	if paused {
		next(e.claimNone("claim from a batch that is paused", func() string { return typ }), row{verb: "resume a batch", request: resume, answer: fields{"Status": "in_progress"}})
	}
	next(row{
		verb: "add to a batch", times: 2, ids: ids{"FirstID": &e.batchJobs[2], "LastID": &e.batchJobs[3]},
		request: add(line(2), line(3)),
		answer:  func() any { return fields{"BatchID": e.batch, "Count": 2} },
	}, waiting(4, "in_progress"), readMetadata, claim(0), complete(0, way.second))
	switch {
	case way.cancelled:
		next(open, row{
			verb:    "cancel a batch",
			request: func(c call) (any, error) { return c.CancelBatch(c, e.batch, "") },
		})
	case way.lastStatus == "completed":
		next(open, claim(2), complete(2, "completed"), open, row{
			verb:    "close a batch",
			request: func(c call) (any, error) { return c.CloseBatch(c, e.batch) },
			answer:  fields{"Status": way.status, "Open": false},
		})
	}
	next(e.claimNone("claim from a batch that has ended", func() string { return typ }), row{
		verb: "read the end of a batch",
		request: func(c call) (any, error) {
			end, err := e.endOfBatch(c, true)
			if err == nil && end.EndedAt == 0 {
				err = impossiblef("batch %s has ended, and has as %+v", e.batch, end)
			}
			e.ends = end
			return end, err
		},
		answer: func() any {
			want := fields{"Status": way.status, "Failed": ""}
			var results []string
			for i, status := range []string{"completed", way.second, way.lastStatus, way.lastStatus} {
				id, of := e.batchJobs[i], ""
				if status != "cancelled" {
					of = "of " + id
				}
				if status == "failed" {
					want["Failed"] = id
				}
				results = append(results, fmt.Sprintf("%d %s %s %s", i, id, status, of))
			}
			want["Results"] = results
			return want
		},
	}, e.readEndedBatch(), row{verb: "add to a batch that has ended", request: add(line(4)), answer: batchEnded},
		row{verb: "resume a batch that has ended", request: resume, answer: batchEnded})
	return rows
}

// endOfBatch reads the document and the results of the batch.
func (e *errands) endOfBatch(ctx context.Context, follow bool) (end batchEnd, err error) {
	bounded, cancel := context.WithTimeout(ctx, e.patience)
	defer cancel()
	for r, err := range e.c.Results(bounded, e.batch, client.ResultsQuery{Follow: follow}) {
		if err != nil && bounded.Err() != nil && ctx.Err() == nil {
			return end, undecided("the results of batch %s have not ended after %v: %q", e.batch, e.patience, end.Results)
		}
		if err != nil {
			return end, err
		}
		end.Results = append(end.Results, fmt.Sprintf("%d %s %s %s%s", r.Line, r.JobID, r.Status, r.Output, r.Error))
	}
	doc, err := e.c.Batch(ctx, e.batch)
	end.Status, end.Failed, end.EndedAt = doc.Status, doc.FailedJobID, doc.EndedAt
	return end, err
}

// readEndedBatch reads the ended batch, which must not have changed since.
func (e *errands) readEndedBatch() row {
	return row{
		verb: "read a batch that has ended", when: func() bool { return e.ends.Status != "" },
		request: func(c call) (any, error) { return e.endOfBatch(c, false) },
		answer:  func() any { return text(e.ends) },
	}
}

// deleteBatch deletes the ended batch, with its jobs.
func (e *errands) deleteBatch() []row {
	is := func() bool { return e.batch != "" }
	return []row{{
		verb: "delete a batch", when: is, removes: neverRemoved,
		request: func(c call) (any, error) { return c.DeleteBatch(c, e.batch, "") },
	}, {
		verb: "read a batch that was deleted", when: is,
		request: func(c call) (any, error) { return c.Batch(c, e.batch) },
		change:  func() { e.batch, e.ends = "", batchEnd{} },
		answer:  notFound,
	}}
}
