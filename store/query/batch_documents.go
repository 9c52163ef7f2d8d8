package query

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/machine"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// Batch returns the document of a batch. It returns job.BatchNotFound if the batch does not exist, is no longer kept,
// or is not shown, because its jobs belong to no batch.
func (q *Queries) Batch(id job.ID) (doc document.Batch, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	return q.batchIn(v, id)
}

func (q *Queries) batchIn(v lsm.View, id job.ID) (document.Batch, error) {
	if s := q.live.ReadSubmissionOf(v, id); s != nil {
		return submissionDocument(s, v), nil
	}
	b := q.live.ReadBatchOf(v, id)
	if b == nil || !b.IsBatch(id) {
		return document.Batch{}, job.BatchNotFound
	}
	return b.Summary(), nil
}

// BatchMetadata returns the metadata of a batch, or nil if it was created without metadata. The error is
// job.BatchNotFound if the batch does not exist.
func (q *Queries) BatchMetadata(id job.ID) (metadata []byte, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	doc, err := q.batchIn(v, id)
	if err != nil || doc.Submission == nil || doc.Submission.MetadataBytes == 0 {
		return nil, err
	}
	seq := q.live.ReadSubmissionOf(v, id).Seq
	return append([]byte{}, v.Get(row.SeqKey(row.BatchMetadataTable, seq))...), nil
}

// BatchCounts returns the number of batches with attributes of a queue in each status, from one row. A batch belongs to
// the queue of its first group. A batch that is being deleted counts as cancelled, or in its final status, until all of
// its jobs are deleted.
func (q *Queries) BatchCounts(client, typ string) (counts [job.NumBatchStatus]int64, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	return row.ReadStatusCounts(v, row.QueueName{client, typ}), nil
}

// BatchOfSnowflake returns the id of the batch with a snowflake, or job.BatchNotFound if there is none.
func (q *Queries) BatchOfSnowflake(snowflake int64) (id job.ID, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	from := row.SnowflakeKey(uint64(snowflake), 0)
	v.Scan(from, row.SnowflakeKey(uint64(snowflake)+1, 0), func(key string, _ []byte) bool {
		if s := row.ReadSubmission(v, row.SeqOfBatchIndex(key)); s != nil && !s.Deleting {
			id = s.Id()
		}
		return false
	})
	if id.IsZero() {
		return id, job.BatchNotFound
	}
	return id, nil
}

// LineOf returns the batch with attributes that a job belongs to, and the line of the job in it, counted over all parts
// of the batch. A purged job keeps its line until all jobs of its part are purged. The error is job.NotFound if the job
// does not exist, or if its batch lacks attributes.
func (q *Queries) LineOf(id job.ID) (batch job.ID, line int64, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	b := q.live.ReadBatchHeadOf(v, id)
	if b == nil || b.Submission == 0 || id.Line() >= int(b.Lines) {
		return job.ID{}, 0, job.NotFound
	}
	return b.ShownID(), b.Base + int64(id.Line()), nil
}

// JobOf is the inverse of LineOf. The error is job.BatchNotFound if no batch with attributes has the id, and
// job.NotFound if no part of it has the line.
func (q *Queries) JobOf(batch job.ID, line int64) (id job.ID, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	s := q.live.ReadSubmissionOf(v, batch)
	if s == nil {
		return id, job.BatchNotFound
	}
	if line < 0 || line >= s.Lines {
		return id, job.NotFound
	}
	of, ok := row.ReadPart(v, s.Seq, line)
	if !ok || of.Base > line { // the part of the line is purged
		return id, job.NotFound
	}
	b := row.ReadBatchHead(v, of.Seq)
	if b == nil {
		lsm.Contradict("find batch", "part %d of submission %d has no row", of.Seq, s.Seq)
	}
	return b.Id().WithLine(int(line - of.Base)), nil
}

// AwaitBatch begins to wait until a batch changes its status, or gets more jobs. Like AwaitEnd, it misses commands that
// were applied before the call. The error is job.BatchNotFound if the batch does not exist.
func (q *Queries) AwaitBatch(id job.ID) (w *memory.JobEnd, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Discard()
	seq := uint64(0)
	if s := q.live.ReadSubmissionOf(v, id); s != nil {
		seq = s.Seq
	} else if b := q.live.ReadBatchOf(v, id); b != nil && b.IsBatch(id) {
		seq = b.Seq
	} else {
		return nil, job.BatchNotFound
	}
	return q.live.Ends.Await(row.Position{seq, machine.BatchEnd(seq).First}), nil
}

// Results is a page of the results of a batch: the ended jobs from a line onwards, in the order of their lines, up to
// the first unfinished job.
type Results struct {
	Jobs []job.Job
	Line []int64 // of each job in the batch
	Next int64   // the line that the next page begins with
	Wait job.ID  // the job of that line if it is unfinished; otherwise zero
	End  bool    // no line follows, now or ever

	bytes int64 // of outputs, errors and histories, approximately
}

// Results returns results of a batch from a line onwards: at most limit jobs, whose outputs, errors and histories have
// at most room bytes together, but at least one job. Purged jobs are left out. The error is job.BatchNotFound if the
// batch does not exist.
func (q *Queries) Results(id job.ID, from int64, limit int, room int64) (page Results, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Discard()
	page.Next = from
	doc, err := q.batchIn(v, id)
	if err != nil {
		return page, err
	}
	parts := func(line int64) (row.BatchPart, bool) {
		return row.BatchPart{Seq: q.live.ReadBatchOf(v, id).Seq}, line < doc.Lines
	}
	if doc.Submission != nil {
		seq := q.live.ReadSubmissionOf(v, id).Seq
		parts = func(line int64) (row.BatchPart, bool) { return row.ReadPart(v, seq, line) }
	}
	for {
		of, ok := parts(page.Next)
		if !ok {
			page.Next = max(page.Next, doc.Lines)
			page.End = doc.Status.Ended() || doc.Submission == nil
			return page, nil
		}
		page.Next = max(page.Next, of.Base)
		b := row.ReadBatch(v, of.Seq)
		if more := q.resultsOf(v, b, of.Base, &page, limit, room); !more {
			return page, nil
		}
	}
}

// resultsOf adds the results of one part to a page. more is false if the page ends there.
func (q *Queries) resultsOf(v lsm.View, b *row.Batch, base int64, page *Results, limit int, room int64) (more bool) {
	for end := base + int64(b.Lines); page.Next < end; {
		line := uint32(page.Next - base)
		sp, ok := row.ReadSpan(v, b.Seq, line)
		switch {
		case !ok:
			lsm.Contradict("find span", "line %d of batch %d is in none", line, b.Seq)
		case sp.Status == job.Purged:
			page.Next = base + int64(sp.Last) + 1
			continue
		case sp.Status.Unfinished():
			page.Wait = b.Id().WithLine(int(line))
			return false
		case len(page.Jobs) == limit:
			return false
		}
		last := min(sp.Last, line+uint32(limit-len(page.Jobs))-1)
		r := Reader{Queries: q, V: v, B: b, Parts: Details, Room: max(0, room-page.bytes)}
		if len(page.Jobs) == 0 {
			r.least = 1
		}
		docs, all := r.Documents(row.Run{b.Seq, line, last}, 0)
		for i := range docs {
			page.Line = append(page.Line, base+int64(docs[i].ID.Line()))
			page.bytes += bytesOf(&docs[i])
		}
		page.Jobs = append(page.Jobs, docs...)
		if page.Next += int64(len(docs)); !all {
			return false
		}
	}
	return true
}

// bytesOf returns the approximate size of the details of a document.
func bytesOf(doc *job.Job) int64 {
	n := len(doc.Output) + len(doc.Error)
	for i := range doc.Attempts {
		n += len(doc.Attempts[i].Error) + len(doc.Attempts[i].LogAddr)
	}
	return int64(n)
}

// submissionDocument returns the document of a submission.
func submissionDocument(s *row.Submission, r lsm.Rows) document.Batch {
	doc := document.Batch{
		ID: s.Id(), CreatedAt: s.At, Lines: s.Lines, Counts: s.Counts, Status: s.Status, Jobs: s.Jobs(), Ended: s.Done(), EndedAt: s.EndedAt,
		Since: s.MarkBefore.At, EndedBefore: s.MarkBefore.Done,
		Submission: &document.Submission{
			Submission: s.Submission, MetadataBytes: s.MetadataBytes, Snowflake: int64(job.Snowflake(s.At, s.Seq)),
			Client: s.Client, Type: s.Typ, RetentionMs: s.RetentionMs, Completed: s.Had(job.Completed),
		},
	}
	if s.Failed.Seq != 0 {
		if b := row.ReadBatchHead(r, s.Failed.Seq); b != nil {
			doc.Failed = b.Id().WithLine(int(s.Failed.Line))
		}
	}
	return doc
}
