package sim

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// audit checks the answers in the order of the journal, job by job. It uses only the rules that a user can read: while a
// claim has the lease of a job, nobody else gets the job, unless the claim ends it; an ended job stays ended; a
// superseded claim changes nothing; a job never gets more attempts than allowed; a paused queue hands out nothing.
type audit struct {
	a         *account
	jobs      map[job.ID]*jobRecord
	claims    map[job.ID]map[job.ID]bool // the jobs that each claim was handed
	claimants map[job.ID]claimant        // who made each claim
	done      map[[2]job.ID]bool         // by claim and job: the claim has ended a run of the job
	paused    map[[2]string]bool

	stopped       bool                         // no queue hands out jobs
	graceSeq      uint64                       // seq of the last grace
	deletedAt     map[[2]string]uint64         // seq of the last deletion of a queue that was granted
	mayBeGone     map[[2]string]bool           // queues that have been deleted, or may have been
	ticks         []int64                      // the times of all ticks
	handlers      versions[string]             // by client and type
	filesets      versions[job.ManifestDigest] // by client and name
	putSame       map[uint64]bool              // seqs of commands that stored the newest version of a handler or fileset again
	lateAfterLoss int                          // granted outcomes that runners reported after their streams had ended
	chained       map[job.ID]int64             // chained jobs that were handed out, and when this first happened
	movedRecords
	submissions map[job.ID]*submissionRecord
}

// jobRecord describes one job according to the answers up to some seq.
type jobRecord struct {
	holder   job.ID // the claim that was handed the job last; zero: not known
	free     bool   // the holder has ended its run
	deadline int64  // until then nobody else gets the job
	leaseMs  int64
	attempts int
	max      int
	ungot    bool
	setAside bool // its payload could not be read, and nobody has run it since
	// unclaimed counts the granted completions with Unclaimed. Some of them used an attempt that is not in attempts.
	unclaimed int
	lost      int  // begun runs whose stream ended, and whose outcome the runner has not reported since
	mayBeLost bool // its runner was declared lost while it held the job

	// The last end of the job that was answered:
	endedBy      job.ID
	withoutClaim bool // a completion without a claim ended it
	code         job.Code
	exitCode     int
	status       job.Status // terminal, or 0
	at           int64
}

func (u *audit) of(id job.ID) *jobRecord {
	l := u.jobs[id]
	if l == nil {
		l = &jobRecord{free: true}
		u.jobs[id] = l
	}
	return l
}

// audit checks all answers.
func (a *account) audit() (*audit, error) {
	u := &audit{a: a, jobs: map[job.ID]*jobRecord{}, claims: map[job.ID]map[job.ID]bool{}, claimants: map[job.ID]claimant{}, done: map[[2]job.ID]bool{}, paused: map[[2]string]bool{},
		deletedAt: map[[2]string]uint64{}, handlers: versions[string]{}, filesets: versions[job.ManifestDigest]{}, putSame: map[uint64]bool{}, chained: map[job.ID]int64{}, mayBeGone: map[[2]string]bool{}, submissions: map[job.ID]*submissionRecord{}, movedRecords: movedRecords{
			moved: map[job.ID]*movedJob{}, movedClaims: map[job.ID][]job.ID{}, batchRedrives: map[job.ID][]operation{}, queueRedrives: map[[2]string][]operation{},
			endedBatches: map[job.ID][]endRecord{}, endedQueues: map[[2]string][]endRecord{}, deletes: map[job.ID]bool{}, deletedQueues: map[[2]string]uint64{},
			keys: map[[3]string][]job.ID{},
		}}
	for _, e := range a.ordered() {
		if err := e.check(u); err != nil {
			return nil, fmt.Errorf("seq %d, at %d, %s: %w", e.seq, e.at, e.text, err)
		}
	}
	return u, nil
}

// mayHaveEndedUnder reports whether a request without an answer may have ended a claim's run of a job.
func (u *audit) mayHaveEndedUnder(id, claim job.ID) bool {
	m := u.a.uncertain[id]
	return m != nil && (m.ended[claim] || m.ended[job.ID{}])
}

// mayHandOut checks that a job's queue may hand out jobs.
func (u *audit) mayHandOut(doc *job.Job) error {
	if u.stopped {
		return fmt.Errorf("job %v is handed out while the server hands out nothing", doc.ID)
	}
	if u.paused[[2]string{doc.Client, doc.Type}] {
		return fmt.Errorf("job %v is handed out of the paused queue %s/%s", doc.ID, doc.Client, doc.Type)
	}
	return u.survived(doc)
}

// survived checks that a job did not exist when its queue was deleted, since only a queue without jobs can be deleted.
func (u *audit) survived(doc *job.Job) error {
	if at := u.deletedAt[[2]string{doc.Client, doc.Type}]; uint64(doc.ID.LowSeq()) < at {
		return fmt.Errorf("queue %s/%s was deleted at %d, and its older job %v still exists", doc.Client, doc.Type, at, doc.ID)
	}
	return nil
}

func (u *audit) handOut(r ingest.Receipt, doc *job.Job) error {
	l := u.of(doc.ID)
	m := u.a.uncertain[doc.ID]
	if err := u.mayHandOut(doc); err != nil {
		return err
	}
	switch b := u.a.batchOf(doc.ID); {
	case b != nil && r.At < b.groups[b.line(doc.ID)].RunAt && !u.maySkipRunAt(doc.ID):
		return fmt.Errorf("job %v is handed out %d ms before its run_at", doc.ID, b.groups[b.line(doc.ID)].RunAt-r.At)
	case l.status.Terminal():
		return fmt.Errorf("job %v is handed out after it was answered as %v", doc.ID, l.status)
	case l.setAside && !u.mayHaveEndedUnder(doc.ID, job.ID{}):
		return fmt.Errorf("job %v is handed out after it was set aside as damaged, and nobody has run it", doc.ID)
	case !l.free && !u.mayHaveEndedUnder(doc.ID, l.holder) && r.At < l.deadline:
		return fmt.Errorf("job %v is handed out %d ms before the lease of claim %v ends", doc.ID, l.deadline-r.At, l.holder)
	case doc.RunAttempts <= l.attempts && !l.ungot && (m == nil || !m.unget):
		return fmt.Errorf("job %v is handed out for attempt %d, after attempt %d", doc.ID, doc.RunAttempts, l.attempts)
	case doc.RunAttempts > doc.MaxAttempts:
		return fmt.Errorf("job %v runs %d times of %d", doc.ID, doc.RunAttempts, doc.MaxAttempts)
	}
	l.holder, l.free, l.deadline, l.leaseMs = doc.Claim, false, r.At+doc.LeaseMs, doc.LeaseMs
	l.attempts, l.max = doc.RunAttempts, doc.MaxAttempts
	return nil
}

func (u *audit) tickled(r ingest.Receipt, claim, id job.ID, leaseMs int64) error {
	l := u.of(id)
	if !claim.IsZero() && claim != l.holder {
		return fmt.Errorf("claim %v tickles job %v, which is held by %v", claim, id, l.holder)
	}
	if l.status.Terminal() || l.free && !l.holder.IsZero() {
		return fmt.Errorf("claim %v tickles job %v, whose run was answered as ended", claim, id)
	}
	if leaseMs == 0 {
		leaseMs = l.leaseMs
	}
	l.deadline, l.leaseMs = r.At+leaseMs, leaseMs
	return nil
}

// refused checks that the server was right to refuse a claim: it no longer held the job.
func (u *audit) refused(r ingest.Receipt, claim, id job.ID, what string) error {
	l := u.of(id)
	if claim.IsZero() || l.holder != claim || l.free || u.mayHaveEndedUnder(id, claim) || l.status.Terminal() {
		return nil
	}
	if r.At < l.deadline {
		return fmt.Errorf("%s of job %v by claim %v is refused %d ms before its lease ends", what, id, claim, l.deadline-r.At)
	}
	return nil
}

func (u *audit) ended(r ingest.Receipt, claim job.ID, o *job.Outcome, status job.Status) error {
	l := u.of(o.ID)
	late := l.mayReportLate(claim)
	if !claim.IsZero() && l.endedBy == claim && l.holder == claim && !late { // a repeat
		if o.Code != l.code || o.ExitCode != l.exitCode {
			return fmt.Errorf("claim %v ends job %v again, with another outcome: %v %d after %v %d", claim, o.ID, o.Code, o.ExitCode, l.code, l.exitCode)
		}
		return nil
	}
	switch {
	case !claim.IsZero() && claim != l.holder:
		return fmt.Errorf("claim %v ends job %v, which claim %v has taken since", claim, o.ID, l.holder)
	case l.status.Terminal():
		return fmt.Errorf("job %v is ended again, after it was answered as %v", o.ID, l.status)
	}
	// Otherwise the answer may repeat an earlier one, and the job may have changed since.
	if !claim.IsZero() && !u.mayHaveEndedUnder(o.ID, claim) {
		want := promised(o.Code, l.attempts, l.max)
		if status != want && !(want == job.Deferred && status == job.Pending) {
			return fmt.Errorf("job %v, attempt %d of %d, ended as %v, is %v and not %v", o.ID, l.attempts, l.max, o.Code, status, want)
		}
	}
	switch {
	case late:
		l.lost--
		u.lateAfterLoss++
	case o.Code == job.Lost:
		l.lost++
	}
	l.free, l.endedBy, l.code, l.exitCode, l.at = true, claim, o.Code, o.ExitCode, r.At
	if l.withoutClaim = claim.IsZero(); l.withoutClaim { // this counts as an end by the holder
		l.endedBy = l.holder
	}
	u.done[[2]job.ID{l.endedBy, o.ID}] = true
	l.ungot = l.ungot || o.Code == job.Unget || o.Code == job.Damaged
	l.setAside = o.Code == job.Damaged && !u.mayHaveEndedUnder(o.ID, claim)
	if status.Terminal() {
		l.status = status
	}
	return nil
}

// promised returns the status that docs/reference/api.md promises for a job whose run ended with code, when it had used
// attempts of max attempts. Deferred includes pending, since the delay may be 0.
func promised(code job.Code, attempts, max int) job.Status {
	switch {
	case code == job.OK:
		return job.Completed
	case code == job.Fail:
		return job.Failed
	case code == job.Unget:
		return job.Pending
	case code != job.Damaged && attempts >= max:
		return job.Failed
	}
	return job.Deferred
}

// endedAll checks the answer to an outcome for all jobs of a claim: the outcome may not have ended more jobs than the
// claim can still have held.
func (u *audit) endedAll(r ingest.Receipt, c *job.Complete, named map[job.ID]bool, answer *applied.Ended) error {
	var open []job.ID
	for id := range u.claims[c.Claim] {
		l := u.of(id)
		again := l.endedBy == c.Claim && l.code == c.All.Code && l.exitCode == c.All.ExitCode
		if !named[id] && l.holder == c.Claim && (again || l.mayReportLate(c.Claim) || !l.free && !l.status.Terminal()) {
			open = append(open, id)
		}
	}
	slices.SortFunc(open, func(a, b job.ID) int { return bytes.Compare(a[:], b[:]) })
	if answer.All > len(open) {
		return fmt.Errorf("an outcome for all of claim %v ended %d jobs, and the claim can hold only %d\n%+v", c.Claim, answer.All, len(open), *c.All)
	}
	for _, id := range open {
		o := *c.All
		o.ID = id
		l := u.of(id)
		if answer.All < len(open) { // the claim no longer held some of them; the answer does not say which
			if err := u.refusedAny(r, c.Claim, id, len(open), answer.All); err != nil {
				return err
			}
			u.a.uncertaintyOf(id).ended[c.Claim] = true
			u.a.uncertaintyOf(id).unget = u.a.uncertaintyOf(id).unget || o.Code == job.Unget
			continue
		}
		if l.endedBy == c.Claim && !l.mayReportLate(c.Claim) {
			continue
		}
		status := promised(o.Code, l.attempts, l.max)
		if err := u.ended(r, c.Claim, &o, status); err != nil {
			return err
		}
		if status.Terminal() && !u.mayHaveEndedUnder(id, c.Claim) {
			u.a.remember(id, status)
		}
	}
	return nil
}

// refusedAny returns an error if the lease of the claim's only open job still ran, so that the claim must have held it.
func (u *audit) refusedAny(r ingest.Receipt, claim, id job.ID, open, reached int) error {
	l := u.of(id)
	if open > 1 || l.free || u.mayHaveEndedUnder(id, claim) {
		return nil
	}
	if r.At < l.deadline {
		return fmt.Errorf("an outcome for all of claim %v ended %d jobs, and its lease of job %v had %d ms left", claim, reached, id, l.deadline-r.At)
	}
	return nil
}

// checkDocument compares a document with the answers.
func (u *audit) checkDocument(doc *job.Job) error {
	b, err := u.a.match(doc)
	if err != nil {
		return err
	}
	if err := u.survived(doc); err != nil {
		return err
	}
	if b.moved {
		return u.checkMovedDocument(doc)
	}
	return u.checkRuns(doc)
}

// checkRuns checks the runs in the document of a job that operators do not move.
func (u *audit) checkRuns(doc *job.Job) error {
	l := u.of(doc.ID)
	switch {
	case doc.RunAttempts > doc.MaxAttempts || doc.RunAttempts < l.attempts && !l.ungot && (u.a.uncertain[doc.ID] == nil || !u.a.uncertain[doc.ID].unget):
		return fmt.Errorf("job %v has run %d times of %d, and %d runs were answered", doc.ID, doc.RunAttempts, doc.MaxAttempts, l.attempts)
	case l.status.Terminal():
		if doc.Status != l.status || doc.CompletedAt == 0 || !u.mayHaveEndedUnder(doc.ID, l.endedBy) && (doc.Code != l.code || doc.ExitCode != l.exitCode || doc.Claim != l.endedBy && !l.withoutClaim) {
			return fmt.Errorf("job %v was answered as %v by claim %v with %v %d, and now is %+v", doc.ID, l.status, l.endedBy, l.code, l.exitCode, *doc)
		}
	case l.setAside && !u.mayHaveEndedUnder(doc.ID, job.ID{}):
		if doc.Status != job.Deferred || doc.Code != job.Damaged || doc.Error != job.DamagedText || doc.RunAt != job.MaxTimeMs || doc.RunAttempts != l.attempts-1 {
			return fmt.Errorf("job %v was set aside as damaged in attempt %d, and now is %+v", doc.ID, l.attempts, *doc)
		}
	case doc.Status == job.Completed || doc.Status == job.Failed && doc.RunAttempts < doc.MaxAttempts:
		if !u.mayHaveEnded(doc.ID) {
			return fmt.Errorf("job %v is %v, and nobody ended it: %+v", doc.ID, doc.Status, *doc)
		}
	case doc.Status == job.Active && doc.Claim.IsZero(), doc.Status == job.Cancelled:
		return fmt.Errorf("job %v is %+v", doc.ID, *doc)
	}
	return u.checkLost(doc)
}

func (u *audit) mayHaveEnded(id job.ID) bool {
	m := u.a.uncertain[id]
	return m != nil && len(m.ended) > 0
}

// mayBePurged reports whether the document of a job may be gone.
func (u *audit) mayBePurged(b *batch, line int, now int64) bool {
	g := b.groups[line]
	if b.omitted[line] {
		return true
	}
	if b.moved { // the time of its end is not always known
		return u.mayBeDeleted(b.job(line), g) || now >= b.id.At()+g.RetentionMs
	}
	l := u.of(b.job(line))
	if l.status.Terminal() && !u.mayHaveEnded(b.job(line)) {
		return now >= l.at+g.RetentionMs
	}
	// The job may have ended by a request without an answer whose repeat was answered, or when the lease of its last
	// attempt ended.
	ended := l.status.Terminal() || u.mayHaveEnded(b.job(line)) || u.attemptsMayBeUsed(l, g)
	return ended && now >= b.id.At()+g.RetentionMs
}
