package store

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
	"github.com/daybookq/daybook/store/query"
)

func (p *player) check() error {
	var problems []error
	_, err := p.s.Check(func(problem string) bool {
		problems = append(problems, errors.New("check: "+problem))
		return len(problems) < 10
	})
	return errors.Join(append(problems, err, checkDistinct(p.s))...)
}

// compare commits, and compares everything that a user can see.
func (p *player) compare() (err error) {
	defer lsm.Catch(&err)
	if err := p.commit(); err != nil {
		return err
	}
	s, m := p.s, p.m
	if s.At() != m.at || s.Applied() != m.seq && m.seq != 0 {
		return fmt.Errorf("at %d of %d, the model at %d of %d", s.At(), s.Applied(), m.at, m.seq)
	}
	v := s.db.View()
	defer v.Close()
	var counts job.Counts
	for i, b := range m.batches {
		stored := row.ReadBatch(v, b.seq)
		if stored == nil {
			return fmt.Errorf("batch %v is missing", b.id)
		}
		docs := documentsOf(s, v, stored)
		for k, j := range b.lines {
			if j.status == job.Purged {
				continue
			}
			counts[j.status]++
			if len(docs) == 0 {
				return fmt.Errorf("job %v has no document", j)
			}
			if err := sameJob(docs[0], m.Document(j)); err != nil {
				return fmt.Errorf("job %v: %w", j, err)
			}
			docs = docs[1:]
			if (i+k)%17 == 0 {
				doc, err := s.Job(j.id)
				if err != nil {
					return fmt.Errorf("read job %v: %w", j, err)
				}
				if err := sameJob(doc, m.Document(j)); err != nil {
					return fmt.Errorf("job %v alone: %w", j, err)
				}
			}
		}
		if len(docs) > 0 {
			return fmt.Errorf("batch %v has documents that the model does not have: %+v", b.id, docs)
		}
		if b.submission != nil {
			continue
		}
		doc, err := s.Batch(b.id)
		if b.joined {
			if !errors.Is(err, job.BatchNotFound) {
				return fmt.Errorf("joined batch %v is shown: %+v, %w", b.id, doc, err)
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("read batch %v: %w", b.id, err)
		}
		if want := m.batchDocument(b); doc != want {
			return fmt.Errorf("batch\n\t%+v, the model has\n\t%+v", doc, want)
		}
	}
	batches := 0
	v.Scan(string(row.BatchTable), string(row.BatchTable+1), func(string, []byte) bool { batches++; return true })
	if batches != len(m.batches) {
		return fmt.Errorf("%d batches, the model has %d", batches, len(m.batches))
	}
	for id, j := range m.jobs {
		if j.status == job.Purged {
			if _, err := s.Job(id); !errors.Is(err, job.NotFound) {
				return fmt.Errorf("purged job %v: %v", j, err)
			}
		}
	}
	if err := p.compareHandedOut(); err != nil {
		return err
	}
	for _, c := range m.claims {
		if err := p.compareHeld(c); err != nil {
			return err
		}
	}
	if got := s.Totals(); got.Counts != counts || got.Queues != len(m.queues) {
		return fmt.Errorf("totals %+v, the model has %v in %d queues", got, counts, len(m.queues))
	}
	return errors.Join(p.compareQueues(), p.compareTallies(), p.compareSessions(), p.compareHandlers(), p.compareFilesets(), p.compareSubmissions())
}

// HandedOut is a claim's result, and the documents that the model had at the time of the claim.
type handedOut struct {
	claimed *applied.Claimed
	want    map[job.ID]job.Job
}

// told returns the part of a claim's result that every caller sees.
func told(c *applied.Claimed) *applied.Claimed {
	t := &applied.Claimed{Claim: c.Claim, Seq: c.Seq, LeaseMs: c.LeaseMs, Runs: c.Runs, Replayed: c.Replayed, Refusal: c.Refusal}
	if t.Replayed { // a tickle may have changed its lease
		t.LeaseMs = 0
	}
	return t
}

// compareHandedOut reads the jobs that claims have handed out since the last comparison. It expects the jobs in their
// state at the claim, without jobs that were purged since.
func (p *player) compareHandedOut() error {
	for _, h := range p.handed {
		handed, err := p.s.HandedOut(h.claimed)
		if err != nil {
			return fmt.Errorf("handed out by %v: %w", h.claimed.Claim, err)
		}
		for i := range handed[:max(len(handed)-1, 0)] {
			if next := &handed[i+1]; next.Frame == handed[i].Frame && handed[i].Follows(&next.First) {
				return fmt.Errorf("handed out by %v: the runs of %v and %v are one", h.claimed.Claim, handed[i].First.ID, next.First.ID)
			}
		}
		docs, err := documents(handed, nil)
		if err != nil {
			return fmt.Errorf("handed out by %v: %w", h.claimed.Claim, err)
		}
		for _, doc := range docs {
			want, ok := h.want[doc.ID]
			if !ok {
				return fmt.Errorf("%v handed out %v, which it did not", h.claimed.Claim, doc.ID)
			}
			if _, err := p.s.Job(doc.ID); errors.Is(err, job.NotFound) { // its unique key was deleted too
				want.UniqueKey = doc.UniqueKey
			}
			// Later reports of the same run may already show.
			doc.Attempts, want.Attempts, doc.Error, want.Error = nil, nil, "", ""
			want.Steps = nil
			doc.Result, want.Result, doc.Step, want.Step, doc.Progress, want.Progress = job.Result{}, job.Result{}, "", "", 0, 0
			if err := sameJob(doc, want); err != nil {
				return fmt.Errorf("job %v handed out by %v: %w", doc.ID, h.claimed.Claim, err)
			}
			delete(h.want, doc.ID)
		}
		for id := range h.want {
			if _, err := p.s.Job(id); !errors.Is(err, job.NotFound) {
				return fmt.Errorf("%v did not hand out %v, which is there: %v", h.claimed.Claim, id, err)
			}
		}
	}
	p.handed = nil
	return nil
}

func (p *player) compareHeld(c *modelClaim) error {
	var runs []row.Run
	for _, j := range c.handed {
		run := row.Run{j.batch.seq, uint32(j.id.Line()), uint32(j.id.Line())}
		if last := len(runs) - 1; last >= 0 && runs[last].Batch == run.Batch && runs[last].Last+1 == run.First {
			runs[last].Last++
		} else {
			runs = append(runs, run)
		}
	}
	docs, err := documents(p.s.Held(&applied.Claimed{Claim: c.id, Seq: c.seq, Runs: runs}))
	if err != nil {
		return fmt.Errorf("held by %v: %w", c.id, err)
	}
	held := c.held()
	if len(docs) != len(held) {
		return fmt.Errorf("claim %v holds %d jobs, the model has %v", c.id, len(docs), held)
	}
	for i, j := range held {
		if err := sameJob(docs[i], brief(p.m.Document(j))); err != nil {
			return fmt.Errorf("job %v held by %v: %w", j, c.id, err)
		}
	}
	return nil
}

// brief returns the part of a document that a claim shows.
func brief(doc job.Job) job.Job {
	if n := len(doc.Attempts); n > 0 {
		newest := doc.Attempts[n-1]
		newest.StartedAt = 0
		newest.Error = newest.Error[:min(len(newest.Error), query.MaxHandedError)]
		doc.Attempts, doc.Error = []job.Attempt{newest}, newest.Error
	}
	doc.Steps = nil
	return doc
}

func (p *player) compareQueues() error {
	want := p.m.queueDocuments()
	var got []document.Queue
	for limit, client, typ, more := 1, "", "", true; more; limit++ {
		var page []document.Queue
		var err error
		if page, more, err = p.s.Queues("", client, typ, limit); err != nil {
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
		if doc, err := p.s.Queue(q.Client, q.Type); err != nil || doc != q {
			return fmt.Errorf("queue\n\t%+v (%v), the model has\n\t%+v", doc, err, q)
		}
	}
	ofB, _, err := p.s.Queues("b", "", "", 1000)
	if wantB := slices.DeleteFunc(want, func(q document.Queue) bool { return q.Client != "b" }); err != nil || !slices.Equal(ofB, wantB) {
		return fmt.Errorf("queues of client b\n\t%+v (%v), the model has\n\t%+v", ofB, err, wantB)
	}
	return nil
}

// sameJob compares documents field by field, and returns which fields differ.
func sameJob(got, want job.Job) error {
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

// documentsOf returns the documents of all jobs of a batch.
func documentsOf(s *Store, v lsm.View, b *row.Batch) []job.Job {
	r := query.Reader{Queries: s.Queries, V: v, B: b, Parts: query.Everything, Room: query.Unbounded}
	docs, _ := r.Documents(row.Run{b.Seq, 0, b.Lines - 1}, 0)
	return docs
}
