package compare

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/proof/model"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/query"
)

// submissions compares the documents and results of all submissions, and their numbers in each status.
func (c *comparison) submissions() error {
	var statuses [job.NumBatchStatus]int64
	ofQueues := map[model.Name]*[job.NumBatchStatus]int64{{"nobody", "x"}: {}}
	for _, s := range c.m.Submissions {
		statuses[s.Status]++
		name := model.Name{s.Client, s.Type}
		if ofQueues[name] == nil {
			ofQueues[name] = &[job.NumBatchStatus]int64{}
		}
		ofQueues[name][s.Status]++
		doc, err := c.q.Batch(s.ID)
		if s.Deleting {
			if !errors.Is(err, job.BatchNotFound) {
				return fmt.Errorf("batch %v, which is being deleted: %+v, %w", s.ID, doc, err)
			}
			if id, err := c.q.JobOf(s.ID, 0); !errors.Is(err, job.BatchNotFound) {
				return fmt.Errorf("a line of batch %v, which is being deleted: %v, %w", s.ID, id, err)
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("read batch %v: %w", s.ID, err)
		}
		of := doc.Submission
		if doc.Submission = nil; doc.Since > c.m.At || doc.EndedBefore > doc.Jobs {
			return fmt.Errorf("batch %+v counts its progress from the future", doc)
		}
		doc.Since, doc.EndedBefore = 0, 0
		if want := s.Document(); doc != want {
			return fmt.Errorf("batch\n\t%+v, the model has\n\t%+v", doc, want)
		}
		want := s.Submission
		want.Metadata, want.Open, want.Paused = nil, s.IsOpen, s.Status == job.BatchPaused
		if of.Client != s.Client || of.Type != s.Type || of.RetentionMs != s.RetentionMs || of.MetadataBytes != len(s.Metadata) || !sameSubmission(of.Submission, want) {
			return fmt.Errorf("batch %v has the attributes\n\t%+v, the model has\n\t%+v", s.ID, of, want)
		}
		if metadata, err := c.q.BatchMetadata(s.ID); err != nil || string(metadata) != string(s.Metadata) {
			return fmt.Errorf("batch %v has the metadata %q (%v), the model has %q", s.ID, metadata, err, s.Metadata)
		}
		if id, err := c.q.BatchOfSnowflake(of.Snowflake); err != nil || id != s.ID {
			return fmt.Errorf("snowflake %d is that of %v (%v), the model has %v", of.Snowflake, id, err, s.ID)
		}
		if err := c.lines(s); err != nil {
			return fmt.Errorf("lines of batch %v: %w", s.ID, err)
		}
		if err := c.results(s); err != nil {
			return fmt.Errorf("results of batch %v: %w", s.ID, err)
		}
	}
	if err := c.batchLists(); err != nil {
		return err
	}
	if got := c.q.Totals().Batches; statuses != got {
		return fmt.Errorf("batches by status %v, the model has %v", got, statuses)
	}
	for name, want := range ofQueues {
		if got, err := c.q.BatchCounts(name.Client, name.Name); err != nil || got != *want {
			return fmt.Errorf("batches of %v by status %v (%v), the model has %v", name, got, err, *want)
		}
	}
	return nil
}

// lines looks up all lines of a submission, and all jobs of its parts.
func (c *comparison) lines(s *model.Submission) error {
	jobs := map[int64]job.ID{}
	for _, b := range s.Parts {
		for _, j := range b.Lines {
			want := b.Base + int64(j.ID.Line())
			if batch, line, err := c.q.LineOf(j.ID); err != nil || batch != s.ID || line != want {
				return fmt.Errorf("job %v is line %d of %v (%w), the model has %d", j.ID, line, batch, err, want)
			}
			jobs[want] = j.ID
		}
		if _, _, err := c.q.LineOf(b.ID.WithLine(len(b.Lines))); !errors.Is(err, job.NotFound) {
			return fmt.Errorf("a line after those of part %v: %w", b.ID, err)
		}
	}
	for line := int64(-1); line <= s.Lines; line++ {
		id, err := c.q.JobOf(s.ID, line)
		if want, ok := jobs[line]; ok && (err != nil || id != want) || !ok && !errors.Is(err, job.NotFound) {
			return fmt.Errorf("line %d is job %v (%w), the model has %v", line, id, err, want)
		}
	}
	return nil
}

// batchLists reads lists of batches page by page.
func (c *comparison) batchLists() error {
	for _, f := range []query.BatchFilter{
		{}, {Status: job.BatchInProgress}, {Status: job.BatchFailed, Client: "a"}, {Name: "one"}, {Meta: map[string]string{"user": "42"}},
		{Meta: map[string]string{"user": "42", "x": "-1"}, Name: "two words", Status: job.BatchCompleted}, {NamePrefix: "two", Type: "x"}, {NamePrefix: "o"},
	} {
		var want []string
		for _, doc := range c.batchDocuments() {
			if doc.matches(&f) {
				want = append(want, doc.ID.String())
			}
		}
		slices.Sort(want)
		got, err := c.batchIDs(f, len(want))
		if err != nil {
			return err
		}
		if f.NamePrefix == "" {
			f.Newest = true
			newest, err := c.batchIDs(f, len(want))
			if slices.Reverse(newest); err != nil || !slices.Equal(newest, got) {
				return fmt.Errorf("batches %+v\n\t%v backwards, and the oldest first\n\t%v, %w", f, newest, got, err)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("batches %+v\n\t%v, the model has\n\t%v", f, got, want)
		}
	}
	return nil
}

// batchIDs reads a list of about n batches, by pages that end after few rows, of any number.
func (c *comparison) batchIDs(f query.BatchFilter, n int) (ids []string, err error) {
	for f.Limit = 1; ; f.Limit++ {
		page, next, err := c.q.BatchesWithin(f, 1+(n+f.Limit)%7)
		if err != nil || len(page) > f.Limit {
			return nil, fmt.Errorf("batches %+v: %d, %w", f, len(page), err)
		}
		for i := range page {
			ids = append(ids, page[i].ID.String())
		}
		if f.After = next; next.IsZero() {
			return ids, nil
		}
	}
}

// batchDocument has the fields of a batch that a list can filter by.
type batchDocument struct {
	document.Batch
	client, typ, name string
	meta              map[string]string
}

func (c *comparison) batchDocuments() (docs []batchDocument) {
	for _, b := range c.m.Batches {
		if b.Submission == nil && !b.Joined {
			at := slices.IndexFunc(b.Lines, func(j *model.Job) bool { return c.m.Queues[j.Queue.Name] == j.Queue })
			name := b.Lines[at].Queue.Name // a batch whose queues are all deleted is deleted
			docs = append(docs, batchDocument{Batch: c.m.BatchDocument(b), client: name.Client, typ: name.Name})
		}
	}
	for _, s := range c.m.Submissions {
		if s.Deleting {
			continue
		}
		doc := batchDocument{s.Document(), s.Client, s.Type, s.Name, map[string]string{}}
		for name, v := range s.Meta.All() {
			doc.meta[name] = v.String()
		}
		docs = append(docs, doc)
	}
	return docs
}

func (d *batchDocument) matches(f *query.BatchFilter) bool {
	for name, text := range f.Meta {
		if got, ok := d.meta[name]; !ok || got != text {
			return false
		}
	}
	return (f.Status == 0 || f.Status == d.Status) && (f.Client == "" || f.Client == d.client) && (f.Type == "" || f.Type == d.typ) &&
		(f.Name == "" || f.Name == d.name) && strings.HasPrefix(d.name, f.NamePrefix)
}

func sameSubmission(a, b job.Submission) bool {
	return a.Name == b.Name && a.Meta == b.Meta && a.OnFailure == b.OnFailure && a.ChunkSize == b.ChunkSize && a.Traceparent == b.Traceparent &&
		a.Tracestate == b.Tracestate && a.Baggage == b.Baggage && a.Open == b.Open && a.Paused == b.Paused
}

// results reads the results page by page up to the first unfinished job.
func (c *comparison) results(s *model.Submission) error {
	want, wait := s.Results()
	for from, limit, room := int64(0), 1, int64(0); ; limit++ {
		page, err := c.q.Results(s.ID, from, limit, room)
		if err != nil {
			return err
		}
		if len(page.Jobs) > limit || len(page.Jobs) > len(want) || len(page.Line) != len(page.Jobs) {
			return fmt.Errorf("a page of %d has %d jobs of %d, with %d lines", limit, len(page.Jobs), len(want), len(page.Line))
		}
		for i := range page.Jobs {
			doc := c.m.Document(want[i])
			doc.Payload = nil
			if err := Job(page.Jobs[i], doc); err != nil {
				return fmt.Errorf("job %v: %w", want[i], err)
			}
			if page.Line[i] < from || i > 0 && page.Line[i] <= page.Line[i-1] || page.Line[i] >= page.Next {
				return fmt.Errorf("the line %d of job %v is none of those from %d to %d", page.Line[i], want[i], from, page.Next)
			}
		}
		want = want[len(page.Jobs):]
		if page.Next == from {
			end := s.Ended() && wait.IsZero()
			if len(want) > 0 || page.Wait != wait || page.End != end {
				return fmt.Errorf("they end at line %d: wait %v, end %v; the model has %v more, wait %v, end %v", from, page.Wait, page.End, want, wait, end)
			}
			return nil
		}
		from, room = page.Next, room+20
	}
}
