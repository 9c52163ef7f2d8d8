// Package compare reads all that a reader of a store can see, and compares it with the model.
package compare

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/proof/model"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/query"
)

// comparison compares a store with the model after the same command.
type comparison struct {
	q *query.Queries
	m *model.Model
}

// All compares all documents, lists and counts of a store with the model. The store must have committed the model's last
// command. All returns what differs.
func All(q *query.Queries, m *model.Model) error {
	c := &comparison{q, m}
	if q.At() != m.At || q.Applied() != m.Seq && m.Seq != 0 {
		return fmt.Errorf("at %d of %d, the model at %d of %d", q.At(), q.Applied(), m.At, m.Seq)
	}
	return errors.Join(c.jobs(), c.batches(), c.claims(), c.queues(), c.sessions(), c.documents(), c.submissions(), c.audit())
}

// ordered compares the list in an order with the model, which has n jobs.
func (c *comparison) ordered(order query.Order, n int) error {
	last, listed := int64(math.MaxInt64), map[job.ID]bool{}
	var before job.ID
	for f := (query.Filter{Order: order, Limit: 1000, Sorted: 1}); ; {
		page, next, err := c.q.List(f)
		if err != nil {
			return err
		}
		for _, doc := range page {
			at := doc.CreatedAt
			if order == query.Updated {
				at = doc.UpdatedAt
			}
			j := c.m.Jobs[doc.ID]
			switch {
			case at > last || at == last && doc.ID.WithLine(0) == before.WithLine(0) && doc.ID.Line() >= before.Line():
				return fmt.Errorf("job %v at %d comes after one at %d", doc.ID, at, last)
			case listed[doc.ID]:
				return fmt.Errorf("job %v is there twice", doc.ID)
			case j == nil || c.m.Document(j).UpdatedAt != doc.UpdatedAt:
				return fmt.Errorf("the model does not have job %v, last moved at %d", doc.ID, doc.UpdatedAt)
			}
			last, before, listed[doc.ID] = at, doc.ID, true
		}
		if f.After = next; next.IsZero() {
			break
		}
	}
	if len(listed) != n {
		return fmt.Errorf("%d of %d jobs are there", len(listed), n)
	}
	return nil
}

// jobs compares the documents of all jobs, and their numbers.
func (c *comparison) jobs() error {
	var counts job.Counts
	seen := 0
	for f := (query.Filter{Limit: 1000, Parts: query.Everything}); ; {
		page, next, err := c.q.List(f)
		if err != nil {
			return fmt.Errorf("list: %w", err)
		}
		for _, doc := range page {
			j := c.m.Jobs[doc.ID]
			if j == nil || j.Status == job.Purged {
				return fmt.Errorf("the model does not have job %v, which is listed: %+v", doc.ID, doc)
			}
			if err := Job(doc, c.m.Document(j)); err != nil {
				return fmt.Errorf("job %v: %w", j, err)
			}
			if seen++; seen%17 == 0 {
				alone, err := c.q.Job(j.ID)
				if err != nil {
					return fmt.Errorf("read job %v: %w", j, err)
				}
				if err := Job(alone, c.m.Document(j)); err != nil {
					return fmt.Errorf("job %v alone: %w", j, err)
				}
			}
		}
		if f.After = next; next.IsZero() {
			break
		}
	}
	for _, order := range []query.Order{query.Newest, query.Updated} {
		if err := c.ordered(order, seen); err != nil {
			return fmt.Errorf("list in order %d: %w", order, err)
		}
	}
	listed, uses := 0, map[string]job.Quota{}
	for name := range c.m.Queues {
		use := uses[name.Client]
		use.Queues++
		uses[name.Client] = use
	}
	for id, j := range c.m.Jobs {
		if j.Status == job.Purged {
			if _, err := c.q.Job(id); !errors.Is(err, job.NotFound) {
				return fmt.Errorf("purged job %v: %v", j, err)
			}
			continue
		}
		listed++
		counts[j.Status]++
		use := uses[j.Queue.Name.Client]
		use.Bytes += j.PayloadBytes()
		if j.Status.Unfinished() {
			use.Unfinished++
		}
		uses[j.Queue.Name.Client] = use
	}
	for _, n := range c.m.Sessions {
		use := uses[n.Owner]
		use.Sessions++
		uses[n.Owner] = use
	}
	for _, w := range c.m.Sweeps {
		if w.Owner != "" && !w.Ended {
			use := uses[w.Owner]
			use.Sweeps++
			uses[w.Owner] = use
		}
	}
	for client, want := range uses {
		got, err := c.q.ClientUse(client)
		if got.IdempotencyKeys >= c.m.KeysOf(client) { // the store keeps them for up to half a day longer
			want.IdempotencyKeys = got.IdempotencyKeys
		}
		if err != nil || got != want {
			return fmt.Errorf("client %q uses %+v (%v), the model has %+v", client, got, err, want)
		}
	}
	if seen != listed {
		return fmt.Errorf("%d jobs are listed, the model has %d", seen, listed)
	}
	if got := c.q.Totals(); got.Counts != counts || got.Queues != len(c.m.Queues) {
		return fmt.Errorf("totals %+v, the model has %v in %d queues", got, counts, len(c.m.Queues))
	}
	return nil
}

// batches compares the documents of all batches without attributes.
func (c *comparison) batches() error {
	for _, b := range c.m.Batches {
		if b.Submission != nil {
			continue
		}
		doc, err := c.q.Batch(b.ID)
		if b.Joined {
			if !errors.Is(err, job.BatchNotFound) {
				return fmt.Errorf("joined batch %v is shown: %+v, %w", b.ID, doc, err)
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("read batch %v: %w", b.ID, err)
		}
		if want := c.m.BatchDocument(b); doc != want {
			return fmt.Errorf("batch\n\t%+v, the model has\n\t%+v", doc, want)
		}
	}
	return nil
}

// claims compares the jobs that claims hold.
func (c *comparison) claims() error {
	for _, of := range c.m.Claims {
		if err := c.held(of); err != nil {
			return err
		}
	}
	return nil
}

// held compares the jobs that a claim holds.
func (c *comparison) held(of *model.Claim) error {
	handed, err := c.q.Held(&applied.Claimed{Claim: of.ID, Seq: of.Seq, Runs: model.Runs(of.Handed)})
	if err != nil {
		return fmt.Errorf("held by %v: %w", of.ID, err)
	}
	docs, err := runs.Documents(handed)
	if err != nil {
		return fmt.Errorf("held by %v: %w", of.ID, err)
	}
	held := of.Held()
	if len(docs) != len(held) {
		return fmt.Errorf("claim %v holds %d jobs, the model has %v", of.ID, len(docs), held)
	}
	for i, j := range held {
		if err := Job(docs[i], Brief(c.m.Document(j))); err != nil {
			return fmt.Errorf("job %v held by %v: %w", j, of.ID, err)
		}
	}
	return nil
}

// Brief returns the part of a document that a claim shows.
func Brief(doc job.Job) job.Job {
	if n := len(doc.Attempts); n > 0 {
		newest := doc.Attempts[n-1]
		newest.StartedAt, newest.Claim, newest.ProcessExit, newest.LogAddr = 0, job.ID{}, nil, ""
		newest.Error = newest.Error[:min(len(newest.Error), query.MaxHandedError)]
		doc.Attempts, doc.Error = []job.Attempt{newest}, newest.Error
	}
	doc.Steps = nil
	return doc
}

func (c *comparison) queues() error {
	want := c.m.QueueDocuments()
	var got []document.Queue
	for limit, client, typ, more := 1, "", "", true; more; limit++ {
		var page []document.Queue
		var err error
		if page, more, err = c.q.Queues(&job.Scope{}, "", client, typ, limit); err != nil {
			return err
		}
		if more && len(page) != limit {
			return fmt.Errorf("a page of %d queues has %d, and more follow", limit, len(page))
		}
		got = append(got, page...)
		if len(page) > 0 {
			client, typ = page[len(page)-1].Client, page[len(page)-1].Type
		}
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("queues\n\t%+v, the model has\n\t%+v", got, want)
	}
	for _, q := range want {
		if doc, err := c.q.Queue(q.Client, q.Type); err != nil || doc != q {
			return fmt.Errorf("queue\n\t%+v (%v), the model has\n\t%+v", doc, err, q)
		}
	}
	ofB, _, err := c.q.Queues(&job.Scope{}, "b", "", "", 1000)
	if wantB := slices.DeleteFunc(want, func(q document.Queue) bool { return q.Client != "b" }); err != nil || !slices.Equal(ofB, wantB) {
		return fmt.Errorf("queues of client b\n\t%+v (%v), the model has\n\t%+v", ofB, err, wantB)
	}
	return nil
}

// sessions compares the documents of all sessions, and their number.
func (c *comparison) sessions() error {
	for id, n := range c.m.Sessions {
		got, err := c.q.SessionDocument(id)
		if want := n.Document(); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("session\n\t%+v (%v), the model has\n\t%+v", got, err, want)
		}
	}
	if got := c.q.Totals().Sessions; got != uint64(len(c.m.Sessions)) {
		return fmt.Errorf("%d sessions, the model has %d", got, len(c.m.Sessions))
	}
	return nil
}

// audit compares the commands that the audit keeps: the newest ones of keys for all clients, and of keys with a scope.
func (c *comparison) audit() error {
	got, err := c.q.Audit(query.AuditFilter{Limit: math.MaxInt})
	if err != nil {
		return err
	}
	first := map[bool]uint64{true: math.MaxUint64, false: math.MaxUint64} // that is kept
	for _, a := range got {
		scoped := c.m.Scoped[a.Seq]
		first[scoped] = min(first[scoped], a.Seq)
	}
	newest := map[bool]uint64{}
	var wanted []document.Audited
	for _, a := range c.m.Audit {
		scoped := c.m.Scoped[a.Seq]
		newest[scoped] = a.Seq
		if a.Seq >= first[scoped] {
			wanted = append(wanted, a)
		}
	}
	for scoped, seq := range newest {
		if first[scoped] > seq {
			return fmt.Errorf("the audit has no commands of keys with a scope: %v; the model has", scoped)
		}
	}
	if len(got) != len(wanted) {
		return fmt.Errorf("the audit has %d commands, the model %d", len(got), len(wanted))
	}
	for i, want := range wanted {
		if got[i] != want {
			return fmt.Errorf("the audit has\n\t%+v, the model\n\t%+v", got[i], want)
		}
	}
	return nil
}

// HandedOut compares a job that a claim returned with the model's document at the time of the claim. Its history, its
// unique key and its last report are read later.
func HandedOut(got, want job.Job) error {
	if got.UniqueKey == "" { // it was deleted with the job
		want.UniqueKey = ""
	}
	for _, doc := range []*job.Job{&got, &want} {
		doc.Attempts, doc.Error, doc.Steps, doc.Result, doc.Step, doc.Progress = nil, "", nil, job.Result{}, "", 0
	}
	return Job(got, want)
}

// Job compares two documents of a job field by field, and returns which fields differ.
func Job(got, want job.Job) error {
	if !bytes.Equal(got.Payload, want.Payload) || !bytes.Equal(got.Output, want.Output) || len(got.Attempts) != len(want.Attempts) {
		return fmt.Errorf("payload %q, output %q, attempts %+v; the model has %q, %q, %+v", got.Payload, got.Output, got.Attempts,
			want.Payload, want.Output, want.Attempts)
	}
	got.Payload, got.Output, want.Payload, want.Output = nil, nil, nil, nil
	if len(got.Attempts) == 0 {
		got.Attempts, want.Attempts = nil, nil
	}
	if reflect.DeepEqual(got, want) {
		return nil
	}
	var differ []string
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range g.NumField() {
		if !reflect.DeepEqual(g.Field(i).Interface(), w.Field(i).Interface()) {
			differ = append(differ, fmt.Sprintf("%s %+v, the model has %+v", g.Type().Field(i).Name, g.Field(i).Interface(), w.Field(i).Interface()))
		}
	}
	return errors.New(strings.Join(differ, "; "))
}
