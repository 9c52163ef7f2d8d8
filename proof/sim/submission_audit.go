package sim

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/query"
)

// submissionRecord describes a batch with attributes, according to the answers and the journal up to some seq. For each
// kind of command it has the first one in the journal that was not answered as refused.
type submissionRecord struct {
	closed, resumed, cancelled, deleted journaled
	over                                uint64 // by this seq it had ended, or was deleted; 0: not known
}

// journaled is the place of a command in the journal. The seq is 0 if there is none.
type journaled struct {
	seq uint64
	at  int64
}

func (p *journaled) first(o *operation) {
	if p.seq == 0 {
		*p = journaled{o.seq, o.at}
	}
}

// endedBy records that the batch had ended by seq.
func (s *submissionRecord) endedBy(seq uint64) {
	if s.over == 0 || seq < s.over {
		s.over = seq
	}
}

func (u *audit) submissionOf(id job.ID) *submissionRecord {
	s := u.submissions[id]
	if s == nil {
		s = &submissionRecord{}
		u.submissions[id] = s
	}
	return s
}

// batchChanged applies a close or resume at its place in the journal.
func (u *audit) batchChanged(o *operation, c job.ChangeBatch) {
	s := u.submissionOf(c.Batch)
	if c.Op == job.CloseBatch {
		s.closed.first(o)
	} else {
		s.resumed.first(o)
	}
}

// wholeEnded applies a cancel or delete of a whole batch. Whatever the answer was, the batch has ended after it.
func (u *audit) wholeEnded(o *operation, m job.Move) {
	s := u.submissionOf(m.Batch)
	if s.endedBy(o.seq); m.Op == job.Delete {
		s.deleted.first(o)
	} else {
		s.cancelled.first(o)
	}
}

// mayHandOutFilled checks that a job's batch may hand it out: the batch has not ended, and is not paused, unless a
// request named the job alone.
func (u *audit) mayHandOutFilled(r ingest.Receipt, doc *job.Job) error {
	b := u.a.batchOf(doc.ID)
	if b == nil || b.of == nil {
		return nil
	}
	s, j := u.submissionOf(doc.Batch), u.movedOf(doc.ID)
	if s.over != 0 && s.over < r.Seq {
		return fmt.Errorf("job %v is handed out, and batch %v had ended at %d", doc.ID, doc.Batch, s.over)
	}
	paused := b.of.create.create.Submission.Paused && (s.resumed.seq == 0 || s.resumed.seq > r.Seq)
	unclaimed := j.ended[job.ID{}] || u.mayHaveEndedUnder(doc.ID, job.ID{}) // which returns a job to its queue, or defers it
	if paused && !unclaimed && !j.ran && !j.patched && len(u.redrivesOf(doc)) == 0 {
		return fmt.Errorf("job %v is handed out of the paused batch %v", doc.ID, doc.Batch)
	}
	return nil
}

// endedFilled records the answered end of a job for its batch.
func (u *audit) endedFilled(r ingest.Receipt, id job.ID, status job.Status) {
	if b := u.a.batchOf(id); b != nil && b.of != nil && status == job.Failed && b.of.create.create.Submission.OnFailure == job.CancelRest {
		u.submissionOf(b.of.id()).endedBy(r.Seq)
	}
}

// redrivenFilled checks that the batch of a job that was redriven at r had not ended.
func (u *audit) redrivenFilled(r ingest.Receipt, id job.ID) error {
	if b := u.a.batchOf(id); b != nil && b.of != nil {
		if s := u.submissionOf(b.of.id()); s.over != 0 && s.over < r.Seq {
			return fmt.Errorf("the redrive of job %v is granted, and batch %v had ended at %d", id, b.of.id(), s.over)
		}
	}
	return nil
}

// batches returns the documents of batches, as store.Queries does.
type batches interface {
	Batch(id job.ID) (document.Batch, error)
	Results(id job.ID, from int64, limit int, room int64) (query.Results, error)
}

// checkSubmissions checks the documents of all batches with attributes against the journal, the answers, and the
// documents of their jobs, which are all in listed; nil: they were not listed this time. at is the last command that the
// documents include.
func (u *audit) checkSubmissions(st batches, listed map[job.ID]job.Job, at ingest.Receipt) error {
	jobs := map[job.ID]int{}
	for _, doc := range listed {
		jobs[doc.Batch]++
	}
	for _, of := range u.a.submissions {
		if of.create.journalSeq == 0 {
			continue // nobody knows it and it was not acknowledged, which reread checks
		}
		doc, err := st.Batch(of.id())
		if errors.Is(err, job.BatchNotFound) {
			if err := u.mayBeForgotten(of, at.At, jobs[of.id()]); err != nil {
				return err
			}
			continue
		}
		if err == nil {
			err = u.a.sawBatch(of, &doc, at)
		}
		if s := u.submissionOf(of.id()); err == nil && s.deleted.seq != 0 {
			err = fmt.Errorf("it was deleted at %d", s.deleted.seq)
		}
		if err == nil && listed != nil {
			c := submissionCheck{audit: u, of: of, record: u.submissionOf(of.id()), doc: &doc, listed: listed, now: at.At}
			err = c.check(st, jobs[of.id()])
		}
		if err != nil {
			return fmt.Errorf("batch %v, created at %d, reads as %+v %+v: %w", of.id(), of.create.journalSeq, doc, doc.Submission, err)
		}
	}
	return nil
}

// mayBeForgotten checks a batch without a document; jobs of its jobs still exist.
func (u *audit) mayBeForgotten(of *submission, now int64, jobs int) error {
	s, retention := u.submissionOf(of.id()), of.create.create.Groups[0].RetentionMs
	switch since := max(of.id().At(), of.endedAt); {
	case s.deleted.seq != 0 && (jobs == 0 || !u.a.finished):
		return nil
	case jobs > 0:
		return fmt.Errorf("batch %v is gone, and %d of its jobs are there; it was deleted at %d", of.id(), jobs, s.deleted.seq)
	case now < since+retention:
		u.a.figures.Lost++
		return fmt.Errorf("batch %v, which is kept for %d ms after its end, is gone at %d; it ended after %d", of.id(), retention, now, since)
	}
	return nil
}

// submissionCheck compares one batch with its jobs.
type submissionCheck struct {
	*audit
	of     *submission
	record *submissionRecord
	doc    *document.Batch
	listed map[job.ID]job.Job
	now    int64

	lines []job.ID // the job of each line
	times []int64  // of the creates that made them
	// The jobs that still exist:
	counts      job.Counts
	lastEnd     int64
	firstFailed int64
}

// check checks a batch; jobs of its jobs still exist.
func (c *submissionCheck) check(st batches, jobs int) error {
	if err := c.parts(); err != nil {
		return err
	}
	for _, id := range c.lines {
		doc, is := c.listed[id]
		if !is {
			c.counts[job.Purged]++
			continue
		}
		c.counts[doc.Status]++
		if jobs--; doc.Batch != c.doc.ID {
			return fmt.Errorf("its job %v shows batch %v", id, doc.Batch)
		}
		c.lastEnd = max(c.lastEnd, doc.CompletedAt)
		if doc.Status == job.Failed && (c.firstFailed == 0 || doc.CompletedAt < c.firstFailed) {
			c.firstFailed = doc.CompletedAt
		}
	}
	unfinished := c.counts[job.Deferred] + c.counts[job.Pending] + c.counts[job.Active]
	n := int64(len(c.lines))
	switch failed, is := c.listed[c.doc.Failed]; {
	case jobs != 0:
		return fmt.Errorf("%d jobs show it and are none of its %d lines", jobs, len(c.lines))
	case c.doc.Lines != n || c.doc.Jobs != n || c.doc.Ended != n-unfinished || c.doc.Counts != c.counts:
		return fmt.Errorf("it has %d jobs with the counts %v", n, c.counts)
	case !c.doc.Failed.IsZero() && is && failed.Status != job.Failed:
		return fmt.Errorf("job %v is to have failed first, and is %v", failed.ID, failed.Status)
	case c.a.finished && (!c.doc.Status.Ended() || unfinished > 0):
		return errors.New("it has not ended, and must have by now")
	}
	return errors.Join(c.attributes(), c.status(unfinished), c.results(st))
}

// parts finds the creates that added jobs, and the job of each line.
func (c *submissionCheck) parts() error {
	parts := []*batch{c.of.create}
	var unsure []*batch
	n := int64(len(c.of.create.payloads))
	for _, b := range c.of.parts {
		if b.journalSeq == 0 {
			if b.result == stored {
				return fmt.Errorf("create %s, which added jobs, is not in the journal", b.tag)
			}
			continue
		}
		closed := !c.of.create.create.Submission.Open || c.record.closed.seq != 0 && c.record.closed.seq < b.journalSeq
		ended := c.doc.EndedAt != 0 && c.doc.EndedAt < b.first.At()
		may := !closed && !ended && (c.record.over == 0 || b.journalSeq <= c.record.over)
		must := may && (c.doc.EndedAt == 0 || b.first.At() < c.doc.EndedAt)
		there, gone := c.find(b)
		switch {
		case !may && (b.result == stored || there):
			return fmt.Errorf("create %s added jobs at %d; closed %v, ended %v by %d", b.tag, b.journalSeq, closed, ended, c.record.over)
		case must && b.result == declined:
			return fmt.Errorf("create %s was refused at %d, and must have added its jobs", b.tag, b.journalSeq)
		case there && b.result == declined:
			return fmt.Errorf("create %s was refused at %d, and its jobs are there", b.tag, b.journalSeq)
		case must || b.result == stored || there:
			parts = append(parts, b)
			n += int64(len(b.payloads))
		case may && b.result == unknown && gone:
			unsure = append(unsure, b)
		}
	}
	bySeq := func(x, y *batch) int { return cmp.Compare(x.journalSeq, y.journalSeq) }
	slices.SortFunc(unsure, bySeq)
	for _, b := range unsure { // at the time of the end: the earlier ones were accepted, and their jobs are purged
		if n += int64(len(b.payloads)); n > c.doc.Lines {
			break
		}
		parts = append(parts, b)
	}
	slices.SortFunc(parts, bySeq)
	for _, b := range parts {
		c.add(b)
	}
	return nil
}

// find reports whether a job of a create exists, and whether all of its jobs may be gone.
func (c *submissionCheck) find(b *batch) (there, gone bool) {
	gone = true
	for line, g := range b.groups {
		id := b.first.WithLine(line)
		_, is := c.listed[id]
		there = there || is
		gone = gone && (c.mayBeDeleted(id, g) || c.now >= id.At()+g.RetentionMs)
	}
	return there, gone
}

func (c *submissionCheck) add(b *batch) {
	c.times = append(c.times, b.first.At())
	for line := range b.payloads {
		c.lines = append(c.lines, b.first.WithLine(line))
	}
}

// attributes checks the attributes in the document of the batch.
func (c *submissionCheck) attributes() error {
	posted, g := c.of.create.create.Submission, &c.of.create.create.Groups[0]
	got, ended := c.doc.Submission, c.doc.Status.Ended()
	open := posted.Open && c.record.closed.seq == 0 && !ended
	paused := posted.Paused && c.record.resumed.seq == 0 && !ended
	switch {
	case got.Open != open || (c.doc.Status == job.BatchPaused) != paused:
		return fmt.Errorf("open must be %v, and paused %v: the journal has %+v", open, paused, *c.record)
	case got.Meta != posted.Meta || got.OnFailure != posted.OnFailure || got.ChunkSize != posted.ChunkSize || got.MetadataBytes != len(posted.Metadata):
		return fmt.Errorf("posted was %+v", *posted)
	case got.Client != g.Client || got.Type != g.Type || got.RetentionMs != g.RetentionMs:
		return fmt.Errorf("its first group is %+v", *g)
	}
	return nil
}

// status checks that the status follows from the jobs and the commands.
func (c *submissionCheck) status(unfinished int64) error {
	posted := c.of.create.create.Submission
	complete := !posted.Open || c.record.closed.seq != 0 // no create adds jobs any more
	failed, whole := c.counts[job.Failed] > 0, c.counts[job.Purged] == 0
	cancelled := c.record.cancelled.seq != 0
	wrong := func(why string) error {
		return fmt.Errorf("%s: complete %v, %d unfinished, %v, the journal has %+v", why, complete, unfinished, c.counts, *c.record)
	}
	switch status := c.doc.Status; {
	case !status.Ended():
		if cancelled || failed && posted.OnFailure == job.CancelRest || complete && unfinished == 0 && (status != job.BatchPaused || len(c.lines) > 0) {
			return wrong("it must have ended")
		}
		return nil
	case status == job.BatchFailed && posted.OnFailure == job.CancelRest:
		if whole && (!failed || c.firstFailed != c.doc.EndedAt) {
			return wrong(fmt.Sprintf("a job failed first at %d", c.firstFailed))
		}
		return nil
	case status == job.BatchCancelled && cancelled && c.doc.EndedAt == c.record.cancelled.at:
		return nil
	case !complete:
		return wrong("it ended and was open")
	case unfinished > 0:
		return wrong("it ended before its jobs")
	case whole && status != job.BatchStatusOf(c.counts[job.Failed], c.counts[job.Cancelled]):
		return wrong("its status does not follow from its jobs")
	case whole && !c.endedWith():
		return wrong(fmt.Sprintf("its last job ended at %d", c.lastEnd))
	}
	return nil
}

// endedWith reports whether the batch ended with its last job, or with the command after which no job was missing.
func (c *submissionCheck) endedWith() bool {
	last := max(c.lastEnd, slices.Max(c.times))
	for _, p := range []journaled{c.record.closed, c.record.resumed} {
		if p.seq != 0 && p.at <= c.doc.EndedAt {
			last = max(last, p.at)
		}
	}
	return last == c.doc.EndedAt || c.record.closed.at == c.doc.EndedAt
}

// results reads the results of the batch page by page. They must be its ended jobs in the order of their lines, up to the
// first that has not ended.
func (c *submissionCheck) results(st batches) error {
	next, from := 0, int64(0)
	for {
		page, err := st.Results(c.doc.ID, from, 1+next%7, 1<<16)
		if err != nil {
			return fmt.Errorf("results from line %d: %w", from, err)
		}
		for i := range page.Jobs {
			for next < len(c.lines) && c.listed[c.lines[next]].ID.IsZero() {
				next++ // purged
			}
			got := &page.Jobs[i]
			if next >= len(c.lines) || got.ID != c.lines[next] || page.Line[i] != int64(next) || !got.Status.Terminal() || got.Status != c.listed[got.ID].Status {
				return fmt.Errorf("the result of line %d is job %v, %v; line %d was next, of %d", page.Line[i], got.ID, got.Status, next, len(c.lines))
			}
			next++
			c.a.figures.Results++
		}
		for next < int(page.Next) && next < len(c.lines) && c.listed[c.lines[next]].ID.IsZero() {
			next++
		}
		switch {
		case page.Next != int64(next):
			return fmt.Errorf("results continue with line %d, and line %d is next", page.Next, next)
		case !page.Wait.IsZero():
			if next >= len(c.lines) || page.Wait != c.lines[next] || c.listed[page.Wait].Status.Terminal() {
				return fmt.Errorf("results wait for job %v at line %d of %d", page.Wait, next, len(c.lines))
			}
			return nil
		case next == len(c.lines):
			if page.End != c.doc.Status.Ended() && len(page.Jobs) == 0 {
				return fmt.Errorf("results end: %v", page.End)
			}
			if len(page.Jobs) == 0 {
				return nil
			}
		case len(page.Jobs) == 0:
			return fmt.Errorf("results of line %d are missing", next)
		}
		from = page.Next
	}
}
