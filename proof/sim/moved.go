package sim

import (
	"errors"
	"fmt"
	"slices"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// movedRecords is the audit's knowledge of the jobs that operators move.
type movedRecords struct {
	moved         map[job.ID]*movedJob
	movedClaims   map[job.ID][]job.ID    // by claim: the jobs of this kind that it was handed
	batchRedrives map[job.ID][]operation // redrives of whole batches
	queueRedrives map[[2]string][]operation
	endedBatches  map[job.ID][]endRecord // batches that were cancelled or deleted as a whole
	endedQueues   map[[2]string][]endRecord
	deletes       map[job.ID]bool      // jobs and batches for which the journal has a delete
	deletedQueues map[[2]string]uint64 // seq of the last delete of all jobs of a queue
	keys          map[[3]string][]job.ID
}

// The methods below check jobs that operators move. More can happen to these jobs than to those in audit.go. But each
// change needs a command, and the journal has all commands in order.

func (u *audit) movedOf(id job.ID) *movedJob {
	s := u.moved[id]
	if s == nil {
		s = &movedJob{lastClaim: lastClaim{ended: map[job.ID]bool{}}}
		if b := u.a.batchOf(id); b != nil && b.line(id) < len(b.groups) {
			s.notBefore = b.groups[b.line(id)].RunAt
		}
		u.moved[id] = s
	}
	return s
}

// isMoved reports whether operators may move a job.
func (a *account) isMoved(id job.ID) bool {
	b := a.batchOf(id)
	return b != nil && b.moved
}

// redrivesOf lists the redrives that may have reached a job.
func (u *audit) redrivesOf(doc *job.Job) (list []operation) {
	list = append(list, u.movedOf(doc.ID).ownRedrives...)
	list = append(list, u.batchRedrives[doc.Batch]...)
	for _, o := range u.queueRedrives[[2]string{doc.Client, doc.Type}] {
		if o.seq > uint64(doc.ID.LowSeq()) { // a sweep takes only jobs that existed when it was requested
			list = append(list, o)
		}
	}
	return list
}

// endsOf lists the commands that must have ended a job by seq.
func (u *audit) endsOf(doc *job.Job, seq uint64) (list []endRecord) {
	if s := u.movedOf(doc.ID); s.end.seq != 0 {
		list = append(list, s.end)
	}
	list = append(list, u.endedBatches[doc.Batch]...)
	for _, o := range u.endedQueues[[2]string{doc.Client, doc.Type}] {
		if o.seq > uint64(doc.ID.LowSeq()) {
			list = append(list, o)
		}
	}
	return slices.DeleteFunc(list, func(o endRecord) bool { return o.from > seq })
}

// lastingEnd returns an end of a job that no redrive can have undone by seq.
func (u *audit) lastingEnd(doc *job.Job, seq uint64) (endRecord, bool) {
	for _, o := range u.endsOf(doc, seq) {
		undone := slices.ContainsFunc(u.redrivesOf(doc), func(r operation) bool {
			// A sweep skips jobs that changed since it was requested, and compares milliseconds.
			return r.seq > o.seq || r.at >= o.at
		})
		if o.status == job.Purged || !undone {
			return o, true
		}
	}
	return endRecord{}, false
}

// deletedBy returns the seq of a delete that must have reached a job by seq, or 0.
func (u *audit) deletedBy(doc *job.Job, seq uint64) uint64 {
	if s := u.movedOf(doc.ID); s.deleted != 0 {
		return s.deleted
	}
	for _, o := range u.endsOf(doc, seq) {
		if o.status == job.Purged {
			return o.seq
		}
	}
	return 0
}

// handOutMoved checks the claim of a job against the earlier answers.
func (u *audit) handOutMoved(r ingest.Receipt, doc *job.Job) error {
	if err := u.mayHandOut(doc); err != nil {
		return err
	}
	s, m := u.movedOf(doc.ID), u.a.uncertain[doc.ID]
	if seq := u.deletedBy(doc, r.Seq); seq != 0 {
		return fmt.Errorf("job %v is handed out after it was deleted at %d", doc.ID, seq)
	}
	if o, is := u.lastingEnd(doc, r.Seq); is {
		return fmt.Errorf("job %v is handed out after it was answered as %v at %d", doc.ID, o.status, o.from)
	}
	if err := errors.Join(u.checkAttributes(doc), u.mayHandOutFilled(r, doc)); err != nil {
		return err
	}
	first := doc.RunAttempts == 1 && doc.Redrives == 0
	switch {
	case doc.RunAttempts > doc.MaxAttempts:
		return fmt.Errorf("job %v runs %d times of %d", doc.ID, doc.RunAttempts, doc.MaxAttempts)
	case first && doc.ExpiresAt != 0 && r.At >= doc.ExpiresAt:
		return fmt.Errorf("job %v is handed out %d ms after it expired", doc.ID, r.At-doc.ExpiresAt)
	case doc.Redrives == s.handedOut && r.At < s.notBefore && !u.mayHaveEndedUnder(doc.ID, job.ID{}):
		return fmt.Errorf("job %v is handed out %d ms before its run_at", doc.ID, s.notBefore-r.At)
	}
	again := !s.claim.IsZero() && doc.Redrives == s.handedOut
	if again && !s.ended[s.claim] && !u.mayHaveEndedUnder(doc.ID, s.claim) && r.At < s.deadline {
		return fmt.Errorf("job %v is handed out %d ms before the lease of claim %v ends", doc.ID, s.deadline-r.At, s.claim)
	}
	if again && doc.RunAttempts <= s.runAttempts && !s.ungot && (m == nil || !m.unget) {
		return fmt.Errorf("job %v is handed out for attempt %d, after attempt %d", doc.ID, doc.RunAttempts, s.runAttempts)
	}
	s.claim, s.seq, s.at, s.handedOut, s.runAttempts, s.ungot, s.notBefore = doc.Claim, r.Seq, r.At, doc.Redrives, doc.RunAttempts, false, 0
	s.deadline, s.timeOut = r.At+doc.LeaseMs, 0
	if doc.TimeoutMs > 0 {
		s.timeOut = r.At + doc.TimeoutMs
		s.deadline = min(s.deadline, s.timeOut)
	}
	return u.noteUnended(doc, r.Seq)
}

// noteUnended records that a job had not ended at seq. It checks that every other job with the same unique key had ended
// at that time.
func (u *audit) noteUnended(doc *job.Job, seq uint64) error {
	s := u.movedOf(doc.ID)
	if e := &s.unended; e.last == 0 || e.redrives != doc.Redrives {
		*e = unendedStretch{redrives: doc.Redrives, first: seq}
		if doc.Redrives == 0 {
			e.first = uint64(doc.ID.LowSeq()) // it had not ended since it was created
		}
	}
	s.unended.last = seq
	b := u.a.batchOf(doc.ID)
	if b == nil {
		return nil
	}
	at := slices.IndexFunc(b.create.Unique, func(k job.UniqueKey) bool { return k.Line == doc.ID.Line() })
	if at < 0 {
		return nil
	}
	key := [3]string{doc.Client, doc.Type, b.create.Unique[at].Key}
	for _, other := range u.keys[key] {
		e := u.movedOf(other).unended
		if other != doc.ID && e.first <= s.unended.last && s.unended.first <= e.last {
			return fmt.Errorf("jobs %v and %v have the unique key %q and are both unfinished at %d", doc.ID, other, key[2], max(e.first, s.unended.first))
		}
	}
	if !slices.Contains(u.keys[key], doc.ID) {
		u.keys[key] = append(u.keys[key], doc.ID)
	}
	return nil
}

// checkExisting checks a line that made no job: the job that has its unique key must not have ended.
func (u *audit) checkExisting(r ingest.Receipt, b *batch, made applied.Made) error {
	for _, x := range made.Existing {
		g := b.groups[x.Line]
		holder := job.Job{ID: x.Job, Batch: x.Job.WithLine(0), Client: g.Client, Type: g.Type}
		if seq := u.deletedBy(&holder, r.Seq); seq != 0 {
			return fmt.Errorf("line %d of create %s made no job because of %v, which was deleted at %d", x.Line, b.tag, x.Job, seq)
		}
		if o, is := u.lastingEnd(&holder, r.Seq); is {
			return fmt.Errorf("line %d of create %s made no job because of %v, which was answered as %v at %d", x.Line, b.tag, x.Job, o.status, o.from)
		}
	}
	return nil
}

// checkAttributes compares the attributes that patches change with the values that were posted and patched.
func (u *audit) checkAttributes(doc *job.Job) error {
	b, s := u.a.batchOf(doc.ID), u.movedOf(doc.ID)
	if b == nil {
		return nil
	}
	g := b.groups[b.line(doc.ID)]
	if !allowed(s.priority, g.Priority, doc.Priority) || !allowed(s.attempts, g.MaxAttempts, doc.MaxAttempts) {
		return fmt.Errorf("job %v has priority %d and max_attempts %d; posted were %d and %d, patched %v and %v", doc.ID, doc.Priority, doc.MaxAttempts,
			g.Priority, g.MaxAttempts, s.priority, s.attempts)
	}
	if most := len(u.redrivesOf(doc)); doc.Redrives > most || doc.Redrives < s.granted {
		return fmt.Errorf("job %v was redriven %d times; %d redrives of it were granted, and %d may have reached it", doc.ID, doc.Redrives, s.granted, most)
	}
	return nil
}

// endedMoved checks the results of a completion against the earlier answers.
func (u *audit) endedMoved(r ingest.Receipt, c *job.Complete, answer *applied.Ended) error {
	for i, result := range answer.Results {
		if result.Refusal != job.Granted {
			continue
		}
		s := u.movedOf(result.ID)
		before := s.ended[c.Claim] || u.mayHaveEndedUnder(result.ID, c.Claim) // this may be a repeat
		// A late outcome is granted after the time-out, if nobody has claimed the job since.
		if err := u.checkHeld(r, c.Claim, result.ID, "complete"); err != nil && !before {
			return err
		}
		if c.Unclaimed {
			if err := u.endedUnclaimedMoved(r, result.ID); err != nil {
				return err
			}
		}
		s.ended[c.Claim] = true
		if c.Claim.IsZero() { // an outcome without a claim ends the holder's run
			s.ended[s.claim] = true
		}
		s.ungot = s.ungot || c.Outcomes[i].Code == job.Unget
		if result.Status.Terminal() {
			s.end = endRecord{seq: r.Seq, at: r.At, from: r.Seq, status: result.Status}
			if !before && !c.Claim.IsZero() {
				s.result = &c.Outcomes[i].Result
				if result.Status == job.Cancelled { // not the run ended the job, but its batch or a sweep
					s.result = &job.Result{}
				}
			}
			u.endedFilled(r, result.ID, result.Status)
		}
	}
	if c.All != nil && answer.All > 0 { // the answer does not say which jobs the outcome ended
		for _, id := range u.movedClaims[c.Claim] {
			m := u.a.uncertaintyOf(id)
			m.ended[c.Claim] = true
			m.unget = m.unget || c.All.Code == job.Unget
		}
	}
	return nil
}

// tickledMoved checks the answer to a tickle of named jobs, or of all jobs of a claim, against the earlier answers.
func (u *audit) tickledMoved(r ingest.Receipt, t *job.Tickle, answer *applied.Tickled) error {
	named := t.IDs
	if len(named) == 0 {
		named = u.movedClaims[t.Claim]
	}
	if answer.Refusal != job.Granted || answer.Held < len(named) {
		return nil // the answer does not say which jobs the claim holds
	}
	for _, id := range named {
		if err := u.checkHeld(r, t.Claim, id, "tickle"); err != nil {
			return err
		}
	}
	return nil
}

// checkHeld checks that a claim can still have held a job when the server granted its request for that job.
func (u *audit) checkHeld(r ingest.Receipt, claim, id job.ID, what string) error {
	s := u.movedOf(id)
	if claim.IsZero() || s.claim != claim {
		return nil
	}
	b := u.a.batchOf(id)
	if b == nil {
		return nil
	}
	g := b.groups[b.line(id)]
	doc := job.Job{ID: id, Batch: b.shown(id), Client: g.Client, Type: g.Type}
	if seq := u.deletedBy(&doc, r.Seq); seq != 0 {
		return fmt.Errorf("a %s of job %v by claim %v is granted after the job was deleted at %d", what, id, claim, seq)
	}
	for _, o := range u.endsOf(&doc, r.Seq) {
		if o.seq > s.seq && !s.ended[claim] {
			return fmt.Errorf("a %s of job %v by claim %v is granted after the job was answered as %v at %d", what, id, claim, o.status, o.from)
		}
	}
	if what != "complete" && s.timeOut != 0 && u.ticksSince(s.timeOut) > latestTicks && u.graceSeq < s.seq && !s.ended[claim] {
		return fmt.Errorf("a %s of job %v by claim %v is granted %d ms after the job's time-out", what, id, claim, r.At-s.timeOut)
	}
	return nil
}

// latestTicks bounds the ticks until one carries out something that is due. It may not be the first tick, since each does
// a bounded amount of work.
const latestTicks = 20

// ticksSince counts the ticks in the journal at or after a time.
func (u *audit) ticksSince(at int64) int {
	i, _ := slices.BinarySearch(u.ticks, at)
	return len(u.ticks) - i
}

// mayBeDeleted reports whether a delete in the journal may have reached a job.
func (u *audit) mayBeDeleted(id job.ID, g *job.Group) bool {
	return u.deletes[id] || u.deletes[u.a.shown(id)] || u.deletedQueues[[2]string{g.Client, g.Type}] > uint64(id.LowSeq())
}

// checkMovedDocument compares a document with the answers.
func (u *audit) checkMovedDocument(doc *job.Job) error {
	now := u.a.upTo
	if seq := u.deletedBy(doc, now); seq != 0 {
		return fmt.Errorf("job %v was deleted at %d, and now is %+v", doc.ID, seq, *doc)
	}
	if err := u.checkAttributes(doc); err != nil {
		return err
	}
	if doc.RunAttempts > doc.MaxAttempts {
		return fmt.Errorf("job %v has run %d times of %d", doc.ID, doc.RunAttempts, doc.MaxAttempts)
	}
	if o, is := u.lastingEnd(doc, now); is && !doc.Status.Terminal() {
		return fmt.Errorf("job %v was answered as %v at %d, and now is %+v", doc.ID, o.status, o.from, *doc)
	}
	if s := u.movedOf(doc.ID); s.end.seq != 0 && s.end.status.Terminal() && doc.Status != s.end.status && len(u.redrivesOf(doc)) == 0 {
		return fmt.Errorf("job %v was answered as %v at %d, and now is %+v", doc.ID, s.end.status, s.end.from, *doc)
	}
	if s := u.movedOf(doc.ID); s.result != nil && doc.Status == s.end.status && len(u.redrivesOf(doc)) == 0 && (doc.OutputAddr != s.result.OutputAddr || doc.OutputAddrKind != s.result.OutputAddrKind || string(doc.Output) != string(s.result.Output)) {
		return fmt.Errorf("job %v was ended at %d with the output %q at %q, and now is %+v", doc.ID, s.end.seq, s.result.Output, s.result.OutputAddr, *doc)
	}
	if doc.Why == job.Expired && (doc.ExpiresAt == 0 || doc.CompletedAt < doc.ExpiresAt) {
		return fmt.Errorf("job %v expired too early: %+v", doc.ID, *doc)
	}
	if doc.Status.Waits() || doc.Status == job.Active {
		return u.noteUnended(doc, now)
	}
	return nil
}
