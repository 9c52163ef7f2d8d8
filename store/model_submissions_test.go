package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/row"
	"github.com/daybookq/daybook/store/query"
)

// modelSubmission is a batch with attributes.
type modelSubmission struct {
	id          job.ID
	seq         uint64
	at          int64
	client, typ string
	retentionMs int64
	job.Submission
	status   job.BatchStatus
	open     bool
	deleting bool
	lines    int64
	parts    []*modelBatch // that are not purged
	purged   job.Counts    // jobs that are purged, by their last status
	holes    int64         // lines that made no job
	failed   job.ID
	endedAt  int64
}

func (s *modelSubmission) Ended() bool { return s != nil && s.status.Ended() }

func (s *modelSubmission) eachJob(visit func(j *modelJob)) {
	for _, b := range s.parts {
		for _, j := range b.lines {
			if j.status != job.Purged {
				visit(j)
			}
		}
	}
}

func (s *modelSubmission) Counts() (counts job.Counts) {
	s.eachJob(func(j *modelJob) { counts[j.status]++ })
	for _, n := range s.purged {
		counts[job.Purged] += n
	}
	counts[job.Purged] += s.holes
	return counts
}

// rest returns the jobs that a step over the submission has yet to move.
func (s *modelSubmission) rest() (jobs []*modelJob) {
	s.eachJob(func(j *modelJob) {
		if s.deleting || s.Ended() && j.Unfinished() || !s.Ended() && s.status != job.BatchPaused && j.heldBack && j.status == job.Deferred && j.runAt == job.MaxTimeMs {
			jobs = append(jobs, j)
		}
	})
	return jobs
}

func (m *model) Submission(id job.ID) *modelSubmission {
	for _, s := range m.submissions {
		if s.id == id && !s.deleting {
			return s
		}
	}
	return nil
}

// submissionOf returns the submission that a create makes or adds jobs to, or nil.
func (m *model) submissionOf(c *job.Create) (*modelSubmission, job.Refusal) {
	if !c.Into.IsZero() {
		s := m.Submission(c.Into)
		switch {
		case s == nil:
			return nil, job.BatchNotFound
		case s.Ended():
			return nil, job.BatchEnded
		case !s.open:
			return nil, job.BatchClosed
		}
		s.lines += int64(c.Lines())
		return s, job.Granted
	}
	if c.Submission == nil {
		return nil, job.Granted
	}
	g := &c.Groups[0]
	s := &modelSubmission{
		id: job.NewID(m.at, m.seq, 0), seq: m.seq, at: m.at, client: g.Client, typ: g.Type, retentionMs: g.RetentionMs, Submission: *c.Submission,
		status: job.BatchInProgress, open: c.Submission.Open, lines: int64(c.Lines()),
	}
	if c.Submission.Paused {
		s.status = job.BatchPaused
	}
	m.submissions = append(m.submissions, s)
	return s, job.Granted
}

func (m *model) noteFailed(j *modelJob) {
	if j.status != job.Failed {
		return
	}
	if failed := m.failedOf(j.batch); failed.IsZero() {
		*failed = j.id
	}
}

func (m *model) noteRedriven(j *modelJob) {
	for _, failed := range []*job.ID{&j.batch.failed, m.failedOf(j.batch)} {
		if j.status == job.Failed && *failed == j.id {
			*failed = job.ID{}
		}
	}
}

func (m *model) failedOf(b *modelBatch) *job.ID {
	if b.submission != nil {
		return &b.submission.failed
	}
	return &b.failed
}

func (m *model) notePurged(j *modelJob) {
	if of := j.batch.submission; of != nil {
		of.purged[j.last]++
	} else if !j.batch.joined {
		j.batch.lost[j.last]++
	}
}

// Unfinished returns the batches with unfinished jobs.
func (m *model) Unfinished() map[*modelBatch]bool {
	unfinished := map[*modelBatch]bool{}
	for _, b := range m.batches {
		if slices.ContainsFunc(b.lines, (*modelJob).Unfinished) {
			unfinished[b] = true
		}
	}
	return unfinished
}

// noteBatchEnds records when the last job of a standalone batch has ended.
func (m *model) noteBatchEnds(before map[*modelBatch]bool) {
	now := m.Unfinished()
	for _, b := range m.batches {
		if now[b] {
			b.endedAt = 0
		} else if before[b] {
			b.endedAt = m.at
		}
	}
}

// settleStatuses gives submissions their final status if their jobs have ended, or if one failed.
func (m *model) settleStatuses() {
	for _, s := range m.submissions {
		if s.Ended() {
			continue
		}
		counts := s.Counts()
		failed := counts[job.Failed] + s.purged[job.Failed]
		completed := counts[job.Completed] + s.purged[job.Completed]
		unfinished := counts[job.Deferred] + counts[job.Pending] + counts[job.Active]
		jobs := s.lines - s.holes
		switch {
		case failed > 0 && s.OnFailure == job.CancelRest:
			m.endSubmission(s, job.BatchFailed)
		case s.open || unfinished > 0 || s.status == job.BatchPaused && jobs == 0:
		case failed > 0:
			m.endSubmission(s, job.BatchFailed)
		case completed < jobs:
			m.endSubmission(s, job.BatchCancelled)
		default:
			m.endSubmission(s, job.BatchCompleted)
		}
	}
}

func (m *model) endSubmission(s *modelSubmission, status job.BatchStatus) {
	s.status, s.endedAt, s.open = status, m.at, false
}

// Settle ends submissions and the jobs that events name. If events is nil, it ends all of their jobs.
func (m *model) Settle(events []event) {
	m.settleStatuses()
	if events == nil {
		for _, s := range m.submissions {
			for _, j := range s.rest() {
				m.takeRest(j)
			}
		}
		return
	}
	for _, e := range events {
		if j := m.jobs[e.id]; j != nil && m.restMoves(e) {
			m.takeRest(j)
		}
	}
}

// restMoves reports whether an event is the effect of a step over a submission on a job that the step has yet to move.
func (m *model) restMoves(e event) bool {
	j := m.jobs[e.id]
	if j == nil || j.batch.submission == nil || !slices.Contains(j.batch.submission.rest(), j) {
		return false
	}
	switch s := j.batch.submission; {
	case s.deleting:
		return e.why == job.ReasonDeleted
	case s.Ended():
		return e.why == job.ReasonCancelled
	}
	return e.why == job.ReasonStarted
}

func (m *model) takeRest(j *modelJob) {
	if j.batch.submission.Ended() {
		m.endRest(j)
	} else {
		m.letGo(j)
	}
}

// endRest cancels a job whose submission has ended, or deletes it with its submission.
func (m *model) endRest(j *modelJob) {
	if j.batch.submission.deleting {
		j.code = job.NoCode
		m.purge(j)
	} else {
		m.cancel(j)
	}
}

// letGo gives a job of a batch that was resumed the status of a new job.
func (m *model) letGo(j *modelJob) {
	if j.heldBack = false; j.attr.RunAt > m.at {
		j.runAt, j.movedAt = j.attr.RunAt, m.at
		return
	}
	m.makePending(j)
}

func (m *model) changeBatch(cmd job.ChangeBatch) applied.Result {
	s := m.Submission(cmd.Batch)
	for _, b := range m.batches {
		if s == nil && b.submission == nil && b.shown() == cmd.Batch {
			if status := m.batchDocument(b).Status; cmd.Op == job.CloseBatch || !status.Ended() {
				return &applied.BatchChanged{Status: status}
			}
			return &applied.BatchChanged{Refusal: job.BatchEnded}
		}
	}
	switch {
	case s == nil:
		return &applied.BatchChanged{Refusal: job.BatchNotFound}
	case cmd.Op == job.CloseBatch:
		s.open = false
	case s.Ended():
		return &applied.BatchChanged{Refusal: job.BatchEnded}
	case s.status == job.BatchPaused:
		s.status = job.BatchInProgress
	}
	m.settleStatuses()
	return &applied.BatchChanged{Status: s.status}
}

// endByRequest cancels or deletes a submission. Events say which jobs the command itself moved.
func (m *model) endByRequest(s *modelSubmission, op job.Op, events []event) applied.Result {
	switch {
	case op == job.Cancel && s.status == job.BatchCancelled:
		return &applied.Swept{Status: s.status}
	case op == job.Cancel && s.Ended():
		return &applied.Swept{Refusal: job.BatchEnded}
	}
	if s.deleting = op == job.Delete; !s.Ended() {
		m.endSubmission(s, job.BatchCancelled)
	}
	had := len(s.rest())
	m.Settle(events)
	return &applied.Swept{Status: s.status, Moved: int64(had - len(s.rest()))}
}

// forgetSubmissions deletes submissions that need not be kept, if the store has deleted them, which exists reports. If
// exists is nil, it deletes all of them.
func (m *model) forgetSubmissions(exists func(id job.ID) bool) (err error) {
	m.submissions = slices.DeleteFunc(m.submissions, func(s *modelSubmission) bool {
		may := s.Ended() && len(s.parts) == 0 && (s.deleting || s.endedAt+s.retentionMs <= m.at)
		if exists == nil {
			return may
		}
		there := exists(s.id)
		switch {
		case !there && !may:
			err = errors.Join(err, fmt.Errorf("batch %v is gone, and must be kept: %+v", s.id, s))
		case there && may && s.deleting:
			err = errors.Join(err, fmt.Errorf("batch %v is deleted, and is there", s.id))
		}
		return !there
	})
	return err
}

func (s *modelSubmission) Document() document.Batch {
	counts := s.Counts()
	doc := document.Batch{
		ID: s.id, CreatedAt: s.at, Lines: s.lines, Counts: counts, Status: s.status, Jobs: s.lines - s.holes, EndedAt: s.endedAt, Failed: s.failed,
	}
	doc.Ended = doc.Jobs - counts[job.Deferred] - counts[job.Pending] - counts[job.Active]
	if !slices.ContainsFunc(s.parts, func(b *modelBatch) bool { return b.id == s.failed.WithLine(0) }) {
		doc.Failed = job.ID{}
	}
	return doc
}

// compareSubmissions compares the documents and results of all submissions, and their numbers in each status.
func (p *player) compareSubmissions() error {
	var statuses row.StatusCounts
	ofQueues := map[row.QueueName]*row.StatusCounts{{"nobody", "x"}: {}}
	for _, s := range p.m.submissions {
		statuses[s.status]++
		name := row.QueueName{s.client, s.typ}
		if ofQueues[name] == nil {
			ofQueues[name] = &row.StatusCounts{}
		}
		ofQueues[name][s.status]++
		doc, err := p.s.Batch(s.id)
		if s.deleting {
			if !errors.Is(err, job.BatchNotFound) {
				return fmt.Errorf("batch %v, which is being deleted: %+v, %w", s.id, doc, err)
			}
			if id, err := p.s.JobOf(s.id, 0); !errors.Is(err, job.BatchNotFound) {
				return fmt.Errorf("a line of batch %v, which is being deleted: %v, %w", s.id, id, err)
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("read batch %v: %w", s.id, err)
		}
		of := doc.Submission
		if doc.Submission = nil; doc.Since > p.m.at || doc.EndedBefore > doc.Jobs {
			return fmt.Errorf("batch %+v counts its progress from the future", doc)
		}
		doc.Since, doc.EndedBefore = 0, 0
		if want := s.Document(); doc != want {
			return fmt.Errorf("batch\n\t%+v, the model has\n\t%+v", doc, want)
		}
		want := s.Submission
		want.Metadata, want.Open, want.Paused = nil, s.open, s.status == job.BatchPaused
		if of.Client != s.client || of.Type != s.typ || of.RetentionMs != s.retentionMs || of.MetadataBytes != len(s.Metadata) || !sameSubmission(of.Submission, want) {
			return fmt.Errorf("batch %v has the attributes\n\t%+v, the model has\n\t%+v", s.id, of, want)
		}
		if metadata, err := p.s.BatchMetadata(s.id); err != nil || string(metadata) != string(s.Metadata) {
			return fmt.Errorf("batch %v has the metadata %q (%v), the model has %q", s.id, metadata, err, s.Metadata)
		}
		if id, err := p.s.BatchOfSnowflake(of.Snowflake); err != nil || id != s.id {
			return fmt.Errorf("snowflake %d is that of %v (%v), the model has %v", of.Snowflake, id, err, s.id)
		}
		if err := p.compareLines(s); err != nil {
			return fmt.Errorf("lines of batch %v: %w", s.id, err)
		}
		if err := p.compareResults(s); err != nil {
			return fmt.Errorf("results of batch %v: %w", s.id, err)
		}
	}
	if err := p.compareBatchLists(); err != nil {
		return err
	}
	if got := p.s.Totals().Batches; statuses != got || statuses != p.s.machine.BatchStatuses {
		return fmt.Errorf("batches by status %v and %v, the model has %v", got, p.s.machine.BatchStatuses, statuses)
	}
	for name, want := range ofQueues {
		if got, err := p.s.BatchCounts(name.Client, name.Typ); err != nil || got != *want {
			return fmt.Errorf("batches of %v by status %v (%v), the model has %v", name, got, err, *want)
		}
	}
	rows := 0
	p.s.machine.O.Scan(string(row.StatusCountsTable), string(row.StatusCountsTable+1), func(string, []byte) bool {
		rows++
		return true
	})
	if rows != len(ofQueues)-1 {
		return fmt.Errorf("%d queues count their batches, and %d have some", rows, len(ofQueues)-1)
	}
	return nil
}

// compareLines looks up all lines of a submission, and all jobs of its parts.
func (p *player) compareLines(s *modelSubmission) error {
	jobs := map[int64]job.ID{}
	for _, b := range s.parts {
		for _, j := range b.lines {
			want := b.base + int64(j.id.Line())
			if batch, line, err := p.s.LineOf(j.id); err != nil || batch != s.id || line != want {
				return fmt.Errorf("job %v is line %d of %v (%w), the model has %d", j.id, line, batch, err, want)
			}
			jobs[want] = j.id
		}
		if _, _, err := p.s.LineOf(b.id.WithLine(len(b.lines))); !errors.Is(err, job.NotFound) {
			return fmt.Errorf("a line after those of part %v: %w", b.id, err)
		}
	}
	for line := int64(-1); line <= s.lines; line++ {
		id, err := p.s.JobOf(s.id, line)
		if want, ok := jobs[line]; ok && (err != nil || id != want) || !ok && !errors.Is(err, job.NotFound) {
			return fmt.Errorf("line %d is job %v (%w), the model has %v", line, id, err, want)
		}
	}
	return nil
}

// compareBatchLists reads lists of batches page by page.
func (p *player) compareBatchLists() error {
	for _, f := range []query.BatchFilter{
		{}, {Status: job.BatchInProgress}, {Status: job.BatchFailed, Client: "a"}, {Name: "one"}, {Meta: map[string]string{"user": "42"}},
		{Meta: map[string]string{"user": "42", "x": "-1"}, Name: "two words", Status: job.BatchCompleted}, {NamePrefix: "two", Type: "x"}, {NamePrefix: "o"},
	} {
		var want []string
		for _, doc := range p.m.batchDocuments() {
			if doc.matches(&f) {
				want = append(want, doc.ID.String())
			}
		}
		slices.Sort(want)
		var got []string
		for f.Limit = 1; ; f.Limit++ {
			page, next, err := p.s.BatchesWithin(f, 1+(len(want)+f.Limit)%7) // a page ends after few rows, of any number
			if err != nil || len(page) > f.Limit {
				return fmt.Errorf("batches %+v: %d, %w", f, len(page), err)
			}
			for i := range page {
				got = append(got, page[i].ID.String())
			}
			if f.After = next; next.IsZero() {
				break
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("batches %+v\n\t%v, the model has\n\t%v", f, got, want)
		}
	}
	return nil
}

// modelBatchDocument has the fields of a batch that a list can filter by.
type modelBatchDocument struct {
	document.Batch
	client, typ, name string
	meta              map[string]string
}

func (m *model) batchDocuments() (docs []modelBatchDocument) {
	for _, b := range m.batches {
		if b.submission == nil && !b.joined {
			at := slices.IndexFunc(b.lines, func(j *modelJob) bool { return m.queues[j.queue.name] == j.queue })
			name := b.lines[at].queue.name // a batch whose queues are all deleted is deleted
			docs = append(docs, modelBatchDocument{Batch: m.batchDocument(b), client: name.Client, typ: name.Typ})
		}
	}
	for _, s := range m.submissions {
		if s.deleting {
			continue
		}
		doc := modelBatchDocument{s.Document(), s.client, s.typ, s.Name, map[string]string{}}
		for name, v := range s.Meta.All() {
			doc.meta[name] = v.String()
		}
		docs = append(docs, doc)
	}
	return docs
}

func (d *modelBatchDocument) matches(f *query.BatchFilter) bool {
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

// compareResults reads the results page by page up to the first unfinished job.
func (p *player) compareResults(s *modelSubmission) error {
	var want []*modelJob
	var wait job.ID
	for _, b := range s.parts {
		for _, j := range b.lines {
			if j.Unfinished() && wait.IsZero() {
				wait = j.id
			}
			if wait.IsZero() && j.status != job.Purged {
				want = append(want, j)
			}
		}
	}
	for from, limit, room := int64(0), 1, int64(0); ; limit++ {
		page, err := p.s.Results(s.id, from, limit, room)
		if err != nil {
			return err
		}
		if len(page.Jobs) > limit || len(page.Jobs) > len(want) || len(page.Line) != len(page.Jobs) {
			return fmt.Errorf("a page of %d has %d jobs of %d, with %d lines", limit, len(page.Jobs), len(want), len(page.Line))
		}
		for i := range page.Jobs {
			doc := p.m.Document(want[i])
			doc.Payload = nil
			if err := sameJob(page.Jobs[i], doc); err != nil {
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

// Submission generates the attributes of a batch.
func (g *generator) Submission() *job.Submission {
	s := &job.Submission{
		Name: oneOf(g, "", "one", "two words"), Meta: oneOf[job.BatchMeta](g, "", "user:42", "user=42,x:-1"),
		OnFailure: oneOf(g, job.Continue, job.CancelRest), ChunkSize: oneOf[int64](g, 0, 1, 20), Open: g.some(35), Paused: g.some(25),
	}
	if g.some(30) {
		s.Metadata, s.Tracestate, s.Baggage = []byte("opaque\n\x00"), "a=b", "user=1"
	}
	return s
}

// anySubmission returns the id of a batch, mostly of a batch with attributes.
func (g *generator) anySubmission() job.ID {
	if n := len(g.m.submissions); n > 0 && g.some(90) {
		return g.m.submissions[g.IntN(n)].id
	}
	if n := len(g.m.batches); n > 0 && g.some(50) {
		return g.m.batches[g.IntN(n)].id
	}
	return g.anyClaim()
}

func (g *generator) changeBatch() job.Command {
	return job.ChangeBatch{Op: oneOf(g, job.CloseBatch, job.ResumeBatch), Batch: g.anySubmission()}
}
