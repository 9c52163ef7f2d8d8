package store

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/daybookq/daybook/job"
)

// model is what Apply must amount to, written as plainly as it can be: a row per job, no spans, no indexes, no caches.
// It was written from DESIGN.md and docs/api.md. Every command is a walk over all jobs.
type model struct {
	// Of the tick that is applied, if what the store did is known: what comes after the present event, and the sweeps
	// that left alone what came back.
	ticking bool
	later   []event
	spared  []job.ID

	seed     uint64 // of the jitter
	seq      uint64
	at       int64
	graceAt  int64
	jobs     map[job.ID]*modelJob
	batches  []*modelBatch // in order of seq
	queues   map[queueName]*modelQueue
	claims   map[job.ID]*modelClaim
	runners  map[string]*modelRunner
	order    []*modelQueue // as they were made
	keys     map[queueName]map[string]*modelJob
	once     map[[2]string]*modelOnce
	sessions map[job.ID]*modelSession
	// mostSessions may be open.
	mostSessions uint64
	sweeps       []*modelSweep
	served       string
	stopped      bool
	most         int // queues that one command deletes
}

// modelSweep is a sweep that is under way, or was.
type modelSweep struct {
	id    job.ID
	seq   uint64
	move  job.Move
	moved int64
	ended bool // the store has it no longer under way
}

// event is what a command did to a job beside what it was asked for, or of what it was asked for: a share that is no
// promise.
type event struct {
	id  job.ID
	why reason
}

type modelBatch struct {
	id    job.ID
	seq   uint64
	at    int64
	lines []*modelJob
}

type modelQueue struct {
	name      queueName
	idleAt    int64 // since when it has had no jobs, or is resumed; meaningless while it has jobs or is paused
	paused    bool
	createdAt int64
	readied   bool // gained pending jobs or was resumed since the model was last asked
}

type modelJob struct {
	id      job.ID
	batch   *modelBatch
	queue   *modelQueue
	group   int       // number in its batch
	attr    job.Group // with what patches made of it
	payload []byte
	key     string

	status   job.Status
	cameBack bool
	order    uint64 // of a fresh pending job: the seq that made it pending
	runAt    int64  // of a deferred job
	endedAt  int64  // of a terminal job
	code     job.Code
	exitCode int
	attempts int
	movedAt  int64       // when it came into this state
	claim    *modelClaim // that holds it or ended its last run
	tickle   modelTickle // of an active job
	history  []job.Attempt
	redrives int
	why      job.Why
	timeout  int64  // of an active job; 0: none
	redriven uint64 // the seq of the last redrive

	result        job.Result
	resultClaim   *modelClaim
	step          string
	progress      int64
	progressClaim *modelClaim
}

// modelTickle is the last tickle that reached a job by itself or by its claim, or the claim itself.
type modelTickle struct {
	seq       uint64
	at, lease int64
}

type modelClaim struct {
	id          job.ID
	seq         uint64
	runner      string
	lease       int64
	handed      []*modelJob
	cancelledAt int64 // when something of it was cancelled; 0: never, or told for long enough
}

// modelRunner is what a runner told of all that it holds. It is forgotten when it holds nothing.
type modelRunner struct {
	at       int64  // of its last tickle of all
	plainAt  int64  // of the last one without a lease: each job runs its own lease from there
	until    int64  // the latest end that one with a lease promised
	untilSeq uint64 // the last one with a lease
}

func newModel(seed uint64) *model {
	return &model{seed: seed, jobs: map[job.ID]*modelJob{}, queues: map[queueName]*modelQueue{}, claims: map[job.ID]*modelClaim{},
		runners: map[string]*modelRunner{}, keys: map[queueName]map[string]*modelJob{}, once: map[[2]string]*modelOnce{}, sessions: map[job.ID]*modelSession{}, mostSessions: job.MaxSessions}
}

// apply carries out one command. Where it is no promise how much one command does, events say what it did; nil is
// everything.
func (m *model) apply(seq uint64, at int64, cmd job.Command, events []event) Result {
	m.seq, m.at = seq, max(at, m.at)
	defer m.forgetRunners()
	defer m.noteIdle(m.idle())
	switch cmd := cmd.(type) {
	case *job.Create:
		if made := m.create(cmd); made != nil {
			return made
		}
	case job.Claim:
		return m.applyClaim(cmd)
	case job.Tickle:
		return m.applyTickle(cmd)
	case job.Complete:
		return m.complete(cmd)
	case job.Pause:
		q := m.queues[queueName{cmd.Client, cmd.Type}]
		if q == nil {
			return &Paused{Refusal: job.QueueNotFound}
		}
		q.readied = q.readied || q.paused && !cmd.Paused
		q.paused = cmd.Paused
		return &Paused{}
	case job.DeleteQueue:
		name := queueName{cmd.Client, cmd.Type}
		switch q := m.queues[name]; {
		case q == nil:
			return &QueueDeleted{Refusal: job.QueueNotFound}
		case m.hasJobs(q):
			return &QueueDeleted{Refusal: job.QueueNotEmpty}
		}
		m.deleteQueue(name)
		return &QueueDeleted{}
	case job.DeleteIdleQueues:
		result, idle := &IdleQueuesDeleted{}, m.idle()
		line := slices.DeleteFunc(slices.Clone(m.order), func(q *modelQueue) bool { return !idle[q] || q.idleAt+cmd.IdleMs > m.at })
		slices.SortStableFunc(line, func(a, b *modelQueue) int { return cmp.Compare(a.idleAt, b.idleAt) })
		for _, q := range line[:min(len(line), m.most)] {
			m.deleteQueue(q.name)
			result.Queues++
		}
		return result
	case job.Switch:
		for _, q := range m.queues {
			q.readied = q.readied || m.stopped && !cmd.Stopped
		}
		m.stopped = cmd.Stopped
		return &Switched{Stopped: cmd.Stopped}
	case job.Move:
		if cmd.Job.IsZero() {
			return m.startSweep(cmd, events)
		}
		return m.moveOne(cmd)
	case job.Patch:
		return m.patch(cmd)
	case job.OpenSession:
		return m.openSession(cmd)
	case job.EndSession:
		return m.endSession(cmd)
	case job.Tick:
		if events == nil {
			_ = m.expireSessions(nil) // all that are due
		}
		m.tick(events)
	case job.Grace:
		m.graceAt = m.at
	}
	return nil
}

func (m *model) hasJobs(q *modelQueue) bool {
	for _, j := range m.jobs {
		if j.queue == q && j.status != job.Purged {
			return true
		}
	}
	return false
}

// idle returns the queues that have no jobs and are not paused.
func (m *model) idle() map[*modelQueue]bool {
	idle := map[*modelQueue]bool{}
	for _, q := range m.queues {
		if !q.paused && !m.hasJobs(q) {
			idle[q] = true
		}
	}
	return idle
}

// noteIdle notes the time for queues that have become idle since they were last looked at.
func (m *model) noteIdle(before map[*modelQueue]bool) {
	for q := range m.idle() {
		if !before[q] {
			q.idleAt = m.at
		}
	}
}

func (m *model) deleteQueue(name queueName) {
	m.order = slices.DeleteFunc(m.order, func(q *modelQueue) bool { return q.name == name })
	delete(m.queues, name)
	delete(m.keys, name)
}

func (m *model) create(c *job.Create) *Made {
	switch o, refusal := m.past(&c.Once); {
	case refusal != job.Granted:
		return &Made{Refusal: refusal}
	case o != nil && o.claim != nil:
		return &Made{Refusal: job.KeyReused}
	case o != nil && o.made != nil:
		again := *o.made
		again.Replayed, again.Group.Lines = true, 0
		return &again
	}
	made := &Made{Batch: job.NewID(m.at, m.seq, 0), Seq: m.seq, Lines: c.Lines(), Group: c.Groups[0]}
	unique := map[int]string{}
	for _, u := range c.Unique {
		unique[u.Line] = u.Key
	}
	b := &modelBatch{id: job.NewID(m.at, m.seq, 0), seq: m.seq, at: m.at}
	m.batches = append(m.batches, b)
	body := c.Payloads
	for i, g := range c.Groups {
		name := queueName{g.Client, g.Type}
		if m.queues[name] == nil {
			m.queues[name] = &modelQueue{name: name, createdAt: m.at}
			m.order = append(m.order, m.queues[name])
			m.keys[name] = map[string]*modelJob{}
		}
		for range g.Lines {
			j := &modelJob{id: b.id.WithLine(len(b.lines)), batch: b, queue: m.queues[name], group: i, attr: g, progress: -1}
			var err error
			if j.payload, body, err = c.Frame.Next(body); err != nil {
				panic(err)
			}
			b.lines = append(b.lines, j)
			m.jobs[j.id] = j
			if key := unique[j.id.Line()]; key != "" {
				if holder := m.keys[name][key]; holder.unfinished() {
					j.status = job.Purged
					made.Existing = append(made.Existing, Existing{j.id.Line(), holder.id})
					continue
				}
				j.key, m.keys[name][key] = key, j
			}
			if g.RunAt > m.at {
				j.status, j.runAt, j.movedAt = job.Deferred, g.RunAt, m.at
			} else {
				m.makePending(j)
			}
		}
	}
	m.dropGone(b)
	if c.Once.Given() {
		m.keepOnce(&c.Once, modelOnce{made: made})
	} else if len(c.Unique) == 0 {
		return nil
	}
	return made
}

func (j *modelJob) unfinished() bool {
	return j != nil && (j.status.Waits() || j.status == job.Active)
}

// makePending puts a job in line: a fresh one behind all that became pending before.
func (m *model) makePending(j *modelJob) {
	j.status, j.movedAt, j.order, j.runAt = job.Pending, m.at, m.seq, 0
	j.queue.readied = true
}

// line returns the pending jobs for clients and types in order of service.
func (m *model) line(clients, types []string, paused bool) (line []*modelJob) {
	for _, b := range m.batches {
		for _, j := range b.lines {
			if j.status == job.Pending && (paused || !j.queue.paused) && (len(clients) == 0 || slices.Contains(clients, j.attr.Client)) &&
				(len(types) == 0 || slices.Contains(types, j.attr.Type)) {
				line = append(line, j)
			}
		}
	}
	slices.SortStableFunc(line, func(a, b *modelJob) int { // they come in order of ids
		if c := cmp.Compare(b.attr.Priority, a.attr.Priority); c != 0 {
			return c
		}
		if a.cameBack != b.cameBack {
			return map[bool]int{true: -1, false: 1}[a.cameBack]
		}
		if a.cameBack {
			return 0
		}
		return cmp.Compare(a.order, b.order)
	})
	return line
}

func (c *modelClaim) holds(j *modelJob) bool { return j.status == job.Active && j.claim == c }

func (c *modelClaim) held() (held []*modelJob) {
	for _, j := range c.handed {
		if c.holds(j) {
			held = append(held, j)
		}
	}
	return held
}

// known returns a claim as long as a job is held by it or was last ended by it.
func (m *model) known(id job.ID) *modelClaim {
	c := m.claims[id]
	if c != nil && slices.ContainsFunc(c.handed, func(j *modelJob) bool { return j.claim == c }) {
		return c
	}
	return nil
}

func (m *model) find(id job.ID) *modelJob {
	if j := m.jobs[id]; j != nil && j.status != job.Purged {
		return j
	}
	return nil
}

func (m *model) admit(j *modelJob, claim job.ID, runner string) job.Refusal {
	switch {
	case !claim.IsZero() && (m.known(claim) == nil || j.claim != m.known(claim)):
		return job.ClaimLost
	case j.status == job.Cancelled:
		return job.WasCancelled
	case !claim.IsZero() && j.status != job.Active:
		return job.ClaimLost
	case j.status != job.Active:
		return job.NotActive
	case runner != "" && j.claim.runner != runner:
		return job.RunnerDiffers
	}
	return job.Granted
}

func (m *model) applyTickle(t job.Tickle) Result {
	if len(t.IDs) > 0 {
		return m.tickleJobs(t)
	}
	if !t.Claim.IsZero() {
		c := m.known(t.Claim)
		if c == nil {
			return &Tickled{Refusal: job.ClaimLost}
		}
		if t.Runner != "" && c.runner != t.Runner {
			return &Tickled{Refusal: job.RunnerDiffers}
		}
		result := &Tickled{}
		for _, j := range c.handed {
			if c.holds(j) {
				m.tickleOne(j, t.LeaseMs)
				result.Held++
			} else if j.claim != c && j.status != job.Purged {
				result.Lost = append(result.Lost, JobResult{ID: j.id, Refusal: job.ClaimLost})
			} else if j.status == job.Cancelled {
				result.Lost = append(result.Lost, JobResult{ID: j.id, Refusal: job.WasCancelled})
			}
		}
		if result.Held == 0 {
			result.Refusal = job.ClaimLost
			for _, l := range result.Lost {
				if l.Refusal == job.WasCancelled {
					result.Refusal = job.WasCancelled
				}
			}
		}
		return result
	}
	held := 0
	for _, c := range m.claims {
		if c.runner == t.Runner {
			held += len(c.held())
		}
	}
	lost := m.notices(t.Runner)
	if held == 0 {
		return &Tickled{Refusal: job.ClaimLost, Lost: lost}
	}
	r := m.runners[t.Runner]
	r.at = m.at
	if t.LeaseMs == 0 {
		r.plainAt = m.at
	} else {
		r.until, r.untilSeq = max(r.until, m.at+t.LeaseMs), m.seq
	}
	return &Tickled{Held: held, Lost: lost}
}

// notices tells a runner what of its claims was cancelled lately.
func (m *model) notices(runner string) (lost []JobResult) {
	var claims []*modelClaim
	for id, c := range m.claims {
		if c.runner == runner && m.known(id) != nil && c.cancelledAt != 0 {
			claims = append(claims, c)
		}
	}
	slices.SortFunc(claims, func(a, b *modelClaim) int { return cmp.Compare(a.seq, b.seq) })
	for _, c := range claims {
		if c.cancelledAt+noticeMs < m.at {
			c.cancelledAt = 0
			continue
		}
		for _, j := range c.handed {
			if j.claim == c && j.status == job.Cancelled {
				lost = append(lost, JobResult{ID: j.id, Refusal: job.WasCancelled})
			}
		}
	}
	return lost
}

func (m *model) tickleJobs(t job.Tickle) Result {
	result := &Tickled{}
	seen := map[job.ID]bool{}
	for _, id := range t.IDs {
		j := m.find(id)
		refusal := job.NotFound
		if j != nil {
			refusal = m.admit(j, t.Claim, t.Runner)
		}
		if refusal != job.Granted {
			result.Lost = append(result.Lost, JobResult{ID: id, Refusal: refusal})
			continue
		}
		if seen[id] {
			continue
		}
		seen[id] = true
		result.Held++
		m.tickleOne(j, t.LeaseMs)
		if t.Step == "" && t.Progress < 0 {
			continue
		}
		if j.progressClaim != j.claim {
			j.step, j.progress, j.progressClaim = "", -1, j.claim
		}
		if t.Step != "" {
			j.step = t.Step
		}
		if t.Progress >= 0 {
			j.progress = t.Progress
		}
	}
	return result
}

// tickleOne gives a job its lease again, or another.
func (m *model) tickleOne(j *modelJob, lease int64) {
	if lease == 0 {
		lease = j.tickle.lease
	}
	j.tickle = modelTickle{m.seq, m.at, lease}
}

func (m *model) deadline(j *modelJob) int64 {
	r := m.runners[j.claim.runner]
	at := max(j.tickle.at, m.graceAt, r.plainAt) + j.tickle.lease
	if r.untilSeq > j.tickle.seq {
		at = max(at, r.until)
	}
	if j.timeout != 0 {
		at = min(at, j.timeout)
	}
	return at
}

func (m *model) forgetRunners() {
	held := map[string]bool{}
	for _, j := range m.jobs {
		if j.status == job.Active {
			held[j.claim.runner] = true
		}
	}
	for name := range m.runners {
		if !held[name] {
			delete(m.runners, name)
		}
	}
}

func (m *model) endRuns(cmd job.Complete) *Ended {
	result := &Ended{}
	c := m.known(cmd.Claim)
	excepted := map[*modelJob]bool{}
	for i := range cmd.Outcomes {
		o := &cmd.Outcomes[i]
		result.Results = append(result.Results, m.endOne(&cmd, o))
		excepted[m.jobs[o.ID]] = true
	}
	if cmd.All == nil {
		return result
	}
	switch {
	case c == nil:
		result.Refusal = job.ClaimLost
		return result
	case cmd.Runner != "" && c.runner != cmd.Runner:
		result.Refusal = job.RunnerDiffers
		return result
	}
	cancelled := false
	for _, j := range c.handed {
		cancelled = cancelled || j.claim == c && j.status == job.Cancelled
	}
	// One jitter goes to a stretch of neighbours that are alike.
	for i := 0; i < len(c.handed); i++ {
		j := c.handed[i]
		if c.holds(j) {
			alike := []*modelJob{j}
			for i+1 < len(c.handed) && c.holds(c.handed[i+1]) && neighbours(j, c.handed[i+1]) {
				i++
				j = c.handed[i]
				alike = append(alike, j)
			}
			m.end(alike, cmd.All)
			result.All += len(alike)
		} else if j.claim == c && !excepted[j] && cmd.All.Same(j.code, j.exitCode) {
			result.All++
		}
	}
	if result.All == 0 && len(cmd.Outcomes) == 0 {
		if result.Refusal = job.ClaimLost; cancelled {
			result.Refusal = job.WasCancelled
		}
	}
	return result
}

// neighbours reports whether b, which is active under the same claim as a, follows it in the same span.
func neighbours(a, b *modelJob) bool {
	return a.batch == b.batch && a.group == b.group && a.id.Line()+1 == b.id.Line() && a.attempts == b.attempts &&
		a.attr.Priority == b.attr.Priority && a.attr.MaxAttempts == b.attr.MaxAttempts && a.redrives == b.redrives && a.timeout == b.timeout
}

func (m *model) endOne(cmd *job.Complete, o *job.Outcome) JobResult {
	j, c := m.find(o.ID), m.known(cmd.Claim)
	if j == nil {
		return JobResult{ID: o.ID, Refusal: job.NotFound}
	}
	refusal := m.admit(j, cmd.Claim, cmd.Runner)
	if refusal == job.Granted {
		m.end([]*modelJob{j}, o)
		return JobResult{ID: o.ID, Status: j.shown()}
	}
	if refusal == job.ClaimLost && c != nil && j.claim == c {
		switch {
		case cmd.Runner != "" && c.runner != cmd.Runner:
			refusal = job.RunnerDiffers
		case !o.Same(j.code, j.exitCode):
			refusal = job.OutcomeDiffers
		default:
			return JobResult{ID: o.ID, Status: j.status}
		}
	}
	return JobResult{ID: o.ID, Refusal: refusal}
}

// shown is the status that an outcome led to: of a job that is not kept, the one it had when it went.
func (j *modelJob) shown() job.Status {
	if j.status == job.Purged {
		if j.code == job.NoCode {
			return job.Cancelled
		}
		if j.code == job.OK {
			return job.Completed
		}
		return job.Failed
	}
	return j.status
}

func (m *model) end(jobs []*modelJob, o *job.Outcome) {
	defer m.overtake(jobs)
	for _, j := range jobs {
		j.timeout = 0
		j.code, j.exitCode, j.movedAt = o.Code, o.ExitCode, m.at
		if o.Code != job.OK && o.Code != job.Unget && o.Code != job.Damaged {
			m.remember(j, job.Attempt{At: m.at, Runner: j.claim.runner, Code: o.Code, ExitCode: o.ExitCode, Error: o.Error, Why: job.Told})
		}
		if !o.Result.Empty() {
			j.result, j.resultClaim = o.Result, j.claim
		}
		switch {
		case o.Code == job.OK:
			m.terminal(j, job.Completed, job.Told)
		case o.Code == job.Fail:
			m.terminal(j, job.Failed, job.Told)
		case o.Code == job.Unget:
			j.attempts--
			j.cameBack = true
			m.makePending(j)
		case o.Code == job.Damaged:
			j.attempts--
			j.cameBack = true
			j.status, j.runAt = job.Deferred, job.MaxTimeMs
		case j.attempts >= j.attr.MaxAttempts:
			m.terminal(j, job.Failed, job.Told)
		default:
			delay := o.DelayMs
			if delay < 0 {
				first := jobs[0].id
				delay = j.attr.Backoff.Delay(j.attempts, mix(m.seed, m.seq, j.batch.seq, uint32(first.Line())))
			}
			j.cameBack = true
			if delay == 0 {
				m.makePending(j)
			} else {
				j.status, j.runAt = job.Deferred, m.at+delay
			}
		}
	}
}

func (m *model) remember(j *modelJob, a job.Attempt) {
	j.history = append(slices.Clone(j.history), a)
	if drop := len(j.history) - job.MaxHistory; drop > 0 {
		j.history = j.history[drop:]
	}
}

func (m *model) terminal(j *modelJob, to job.Status, why job.Why) {
	j.status, j.endedAt, j.movedAt, j.why, j.timeout, j.runAt = to, m.at, m.at, why, 0, 0
	if j.attr.RetentionMs == 0 {
		m.purge(j)
	}
}

// purge forgets a job, and a batch when all of its jobs are gone.
func (m *model) purge(j *modelJob) {
	j.status, j.claim = job.Purged, nil
	m.dropGone(j.batch)
}

func (m *model) dropGone(b *modelBatch) {
	if !slices.ContainsFunc(b.lines, func(j *modelJob) bool { return j.status != job.Purged }) {
		m.batches = slices.DeleteFunc(m.batches, func(other *modelBatch) bool { return b == other })
		for _, j := range b.lines {
			delete(m.jobs, j.id)
		}
	}
}

// expiry returns by when a job must have been started; 0: it need not.
func (j *modelJob) expiry() int64 {
	if j.status.Waits() && j.attempts == 0 && j.redrives == 0 {
		return j.attr.ExpiresAt
	}
	return 0
}

// due returns when time will do something to j; 0 for never.
func (m *model) due(j *modelJob) int64 {
	switch {
	case j.status == job.Deferred && j.expiry() != 0:
		return min(j.runAt, j.expiry())
	case j.status == job.Deferred:
		return j.runAt
	case j.status == job.Pending:
		return j.expiry()
	case j.status == job.Active:
		return m.deadline(j)
	case j.status.Terminal():
		return j.endedAt + j.attr.RetentionMs
	}
	return 0
}

// nextDue returns when time will do something to any job; 0 for never.
func (m *model) nextDue() (next int64) {
	for _, j := range m.jobs {
		if due := m.due(j); due != 0 && (next == 0 || due < next) {
			next = due
		}
	}
	for _, n := range m.sessions {
		if next == 0 || n.expiresAt() < next {
			next = n.expiresAt()
		}
	}
	for _, w := range m.sweeps {
		if !w.ended && len(m.targets(w)) > 0 {
			return m.at
		}
	}
	return next
}

// document is what a user sees of a job.
func (m *model) document(j *modelJob) job.Job {
	doc := job.Job{
		ID: j.id, Batch: j.batch.id, Client: j.attr.Client, Type: j.attr.Type, Attributes: j.attr.Attributes, Status: j.status,
		Payload: j.payload, Code: j.code, ExitCode: j.exitCode, Attempts: j.history, Progress: -1,
		RunAttempts: j.attempts, CreatedAt: j.batch.at, UpdatedAt: j.movedAt, Redrives: j.redrives, UniqueKey: j.key,
	}
	if j.status.Terminal() {
		doc.Why = j.why
	}
	if j.code == job.Unget {
		doc.Code = job.NoCode
	}
	if j.code != job.OK && len(j.history) > 0 {
		doc.Error = j.history[len(j.history)-1].Error
	}
	if j.code == job.Damaged {
		doc.Error = job.DamagedText
	}
	switch {
	case j.status == job.Deferred:
		doc.RunAt = j.runAt
	case j.status == job.Active:
		doc.DeadlineAt, doc.LeaseMs = m.deadline(j), j.tickle.lease
		doc.UpdatedAt = max(j.tickle.at, m.runners[j.claim.runner].at)
	case j.status.Terminal():
		doc.CompletedAt = j.endedAt
	}
	if j.claim != nil && (j.status == job.Active || j.status.Terminal()) {
		doc.Claim, doc.Runner = j.claim.id, j.claim.runner
		if j.resultClaim == j.claim {
			doc.Result = j.result
		}
		if j.progressClaim == j.claim {
			doc.Step, doc.Progress = j.step, j.progress
		}
	}
	return doc
}

func (m *model) batchDocument(b *modelBatch) Batch {
	doc := Batch{ID: b.id, CreatedAt: b.at, Lines: len(b.lines)}
	for _, j := range b.lines {
		doc.Counts[j.status]++
	}
	return doc
}

// queueDocuments returns all queues by client and type.
func (m *model) queueDocuments() (docs []Queue) {
	for name, q := range m.queues {
		doc := Queue{Client: name.client, Type: name.typ, Paused: q.paused, CreatedAt: q.createdAt}
		for _, b := range m.batches {
			for _, j := range b.lines {
				if j.queue == q && j.status != job.Purged {
					doc.Counts[j.status]++
				}
			}
		}
		if line := slices.DeleteFunc(m.line([]string{name.client}, []string{name.typ}, true), func(j *modelJob) bool { return j.queue != q }); len(line) > 0 {
			doc.PendingSince = line[0].movedAt
		}
		docs = append(docs, doc)
	}
	slices.SortFunc(docs, func(a, b Queue) int {
		return cmp.Or(cmp.Compare(a.Client, b.Client), cmp.Compare(a.Type, b.Type))
	})
	return docs
}

// takeReadied is Store.TakeReadied, by client and type.
func (m *model) takeReadied() (names []Readied) {
	for _, doc := range m.queueDocuments() {
		q := m.queues[queueName{doc.Client, doc.Type}]
		if q.readied && !q.paused && !m.stopped && doc.Counts[job.Pending] > 0 {
			names = append(names, Readied{doc.Client, doc.Type, doc.Counts[job.Pending]})
		}
		q.readied = false
	}
	return names
}

func (j *modelJob) String() string {
	return fmt.Sprintf("%d/%d %v", j.batch.seq, j.id.Line(), j.status)
}
