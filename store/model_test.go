package store

import (
	"cmp"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/row"
)

// model does what Apply must do, written as plainly as possible: a row per job, no spans, no indexes, no caches. It was
// written from docs/reference/api.md. Every command walks over all jobs.
type model struct {
	chain job.Create // jobs that the current completion creates: a group each
	// While a tick is applied whose effects in the store are known: the later events, and the sweeps that did not take
	// jobs that were returned.
	ticking bool
	later   []event
	spared  []job.ID

	// tallies count the events of the jobs of queues since the counts began.
	tallies map[row.QueueName]*modelTally

	// distinctLevels returns the keys of a strategy of prefer_distinct in the order of the levels of its index.
	distinctLevels func(s job.Strategy) []string
	// distinctUncounted returns the keys of a strategy whose active jobs no index counts.
	distinctUncounted func(s job.Strategy) []string

	seed        uint64 // for the jitter
	seq         uint64
	at          int64
	graceAt     int64
	jobs        map[job.ID]*modelJob
	batches     []*modelBatch // in order of seq
	queues      map[row.QueueName]*modelQueue
	claims      map[job.ID]*modelClaim
	ends        []modelEnd // of purged jobs
	runners     map[string]*modelRunner
	order       []*modelQueue // in the order of their creation
	keys        map[row.QueueName]map[string]*modelJob
	once        map[[2]string]*modelOnce
	sessions    map[job.ID]*modelSession
	handlers    map[row.QueueName][]modelHandler       // by version
	filesets    map[row.FilesetName][]document.Fileset // by version
	submissions []*modelSubmission                     // in order of seq
	rules       *row.Rules                             // the numbers that bound commands, sessions, handlers and filesets
	sweeps      []*modelSweep
	served      string
	stopped     bool
}

// modelSweep is a sweep, running or ended.
type modelSweep struct {
	id    job.ID
	seq   uint64
	move  job.Move
	moved int64
	ended bool // in the store it no longer runs
}

// event is one effect of a command on a job. Events are needed if the model cannot predict how much of its work a
// command does.
type event struct {
	id  job.ID
	why job.Reason
}

type modelBatch struct {
	id    job.ID
	seq   uint64
	at    int64
	lines []*modelJob
	// joined: its jobs belong to no batch that users see.
	joined bool
	// submission is the submission that the batch is a part of; nil: it is a standalone batch.
	submission *modelSubmission
	base       int64      // of a part: the number of its first line in the submission
	lost       job.Counts // of a standalone batch: purged jobs, by their last status
	failed     job.ID     // of a standalone batch: the first job that failed and was not redriven since
	endedAt    int64      // of a standalone batch: when its last job ended
}

// shown is the id of the batch as users see it.
func (b *modelBatch) shown() job.ID {
	switch {
	case b.joined:
		return job.ID{}
	case b.submission != nil:
		return b.submission.id
	}
	return b.id
}

type modelQueue struct {
	name      row.QueueName
	idleAt    int64 // since when it has been without jobs, or when it was resumed; meaningless while it has jobs or is paused
	paused    bool
	createdAt int64
	readied   bool // it got pending jobs or was resumed since the last takeReadied
}

type modelJob struct {
	id      job.ID
	batch   *modelBatch
	queue   *modelQueue
	group   int       // its number in the batch
	attr    job.Group // including changes by patches
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
	movedAt  int64       // when it entered its present status
	claim    *modelClaim // that holds the job or ended its last run
	tickle   modelTickle // of an active job
	history  []job.Attempt
	redrives int
	why      job.Why
	timeout  int64      // of an active job; 0: none
	redriven uint64     // the seq of the last redrive
	heldBack bool       // it has not moved since its creation in a paused batch
	last     job.Status // before it was purged

	result        job.Result
	resultClaim   *modelClaim
	step          string
	progress      int64
	progressClaim *modelClaim
	steps         []job.Step
}

// modelTickle is the last tickle of a job: of the job itself or of its whole claim, or otherwise the claim.
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
	begins      int                // how many began with the claim
	begun       map[*modelJob]bool // runs that have begun; nil: all have
	cancelledAt int64              // when one of its jobs was cancelled; 0: never, or the runner was notified for long enough
}

// modelRunner is the state of a runner's tickles of everything that it holds. It is deleted when the runner no longer
// holds a job.
type modelRunner struct {
	at       int64  // of its last tickle of everything
	plainAt  int64  // of the last such tickle without a lease: each job's own lease then starts again
	until    int64  // the latest end that a tickle with a lease promised
	untilSeq uint64 // seq of the last tickle with a lease
}

func newModel(seed uint64, rules *row.Rules) *model {
	return &model{seed: seed, jobs: map[job.ID]*modelJob{}, queues: map[row.QueueName]*modelQueue{}, claims: map[job.ID]*modelClaim{},
		runners: map[string]*modelRunner{}, keys: map[row.QueueName]map[string]*modelJob{}, once: map[[2]string]*modelOnce{}, handlers: map[row.QueueName][]modelHandler{}, filesets: map[row.FilesetName][]document.Fileset{}, rules: rules,
		sessions: map[job.ID]*modelSession{}, distinctLevels: job.Strategy.DistinctKeys, distinctUncounted: func(job.Strategy) []string { return nil }}
}

// Apply carries out one command. If a command may do any share of its work, events say what the store did. If events is
// nil, apply does everything.
func (m *model) Apply(seq uint64, at int64, cmd job.Command, events []event) applied.Result {
	m.seq, m.at = seq, max(at, m.at)
	defer m.noteBatchEnds(m.Unfinished())
	defer m.noteIdle(m.idle()) // after settle, which may delete the last jobs of a queue
	defer func() { m.Settle(events) }()
	defer m.forgetRunners()
	switch cmd := cmd.(type) {
	case *job.Create:
		if made := m.Create(cmd); made != nil {
			return made
		}
	case job.Claim:
		return m.applyClaim(cmd)
	case job.Tickle:
		return m.applyTickle(cmd)
	case job.Complete:
		return m.complete(cmd)
	case job.Pause:
		q := m.queues[row.QueueName{cmd.Client, cmd.Type}]
		if q == nil {
			return &applied.Paused{Refusal: job.QueueNotFound}
		}
		q.readied = q.readied || q.paused && !cmd.Paused
		q.paused = cmd.Paused
		return &applied.Paused{}
	case job.DeleteQueue:
		name := row.QueueName{cmd.Client, cmd.Type}
		switch q := m.queues[name]; {
		case q == nil:
			return &applied.QueueDeleted{Refusal: job.QueueNotFound}
		case m.hasJobs(q):
			return &applied.QueueDeleted{Refusal: job.QueueNotEmpty}
		}
		m.deleteQueue(name)
		return &applied.QueueDeleted{}
	case job.DeleteIdleQueues:
		result, idle := &applied.IdleQueuesDeleted{}, m.idle()
		line := slices.DeleteFunc(slices.Clone(m.order), func(q *modelQueue) bool { return !idle[q] || q.idleAt+cmd.IdleMs > m.at })
		slices.SortStableFunc(line, func(a, b *modelQueue) int { return cmp.Compare(a.idleAt, b.idleAt) })
		for _, q := range line[:min(len(line), m.rules.CommandRows)] {
			m.deleteQueue(q.name)
			result.Queues++
		}
		return result
	case job.Switch:
		for _, q := range m.queues {
			q.readied = q.readied || m.stopped && !cmd.Stopped
		}
		m.stopped = cmd.Stopped
		return &applied.Switched{Stopped: cmd.Stopped}
	case job.Move:
		if cmd.Job.IsZero() {
			return m.startSweep(cmd, events)
		}
		return m.moveOne(cmd)
	case job.Patch:
		return m.patch(cmd)
	case job.ChangeBatch:
		return m.changeBatch(cmd)
	case job.OpenSession:
		return m.openSession(cmd)
	case job.EndSession:
		return m.endSession(cmd)
	case job.PutHandler:
		return m.putHandler(cmd)
	case job.DeleteHandler:
		return m.deleteHandler(cmd)
	case job.PutFileset:
		return m.putFileset(cmd)
	case job.DeleteFileset:
		return m.deleteFileset(cmd)
	case job.LoseRunner:
		return m.loseRunner(cmd, events)
	case job.Tick:
		if events == nil {
			_ = m.expireSessions(nil) // deletes all sessions that are due
		}
		m.tick(events)
	case job.Grace:
		m.graceAt = m.at
	case job.SetLevel: // the decisions of all levels are the same
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

// idle returns the queues without jobs that are not paused.
func (m *model) idle() map[*modelQueue]bool {
	idle := map[*modelQueue]bool{}
	for _, q := range m.queues {
		if !q.paused && !m.hasJobs(q) {
			idle[q] = true
		}
	}
	return idle
}

// noteIdle records the time for queues that are idle now and were not before.
func (m *model) noteIdle(before map[*modelQueue]bool) {
	for q := range m.idle() {
		if !before[q] {
			q.idleAt = m.at
		}
	}
}

func (m *model) deleteQueue(name row.QueueName) {
	m.order = slices.DeleteFunc(m.order, func(q *modelQueue) bool { return q.name == name })
	delete(m.queues, name)
	delete(m.keys, name)
}

func (m *model) Create(c *job.Create) *applied.Made {
	switch o, refusal := m.past(&c.Once); {
	case refusal != job.Granted:
		return &applied.Made{Refusal: refusal}
	case o != nil && o.claim != nil:
		return &applied.Made{Refusal: job.KeyReused}
	case o != nil && o.made != nil:
		again := *o.made
		again.Replayed, again.Group.Lines = true, 0
		return &again
	}
	made := &applied.Made{Batch: job.NewID(m.at, m.seq, 0), Seq: m.seq, Lines: c.Lines(), Group: c.Groups[0]}
	of, refusal := m.submissionOf(c)
	if refusal != job.Granted {
		return &applied.Made{Refusal: refusal}
	}
	if !c.Into.IsZero() {
		made.Batch, made.First = c.Into, made.Batch
	}
	unique := map[int]string{}
	for _, u := range c.Unique {
		unique[u.Line] = u.Key
	}
	if c.Lines() == 0 {
		if c.Once.Given() {
			m.keepOnce(&c.Once, modelOnce{made: made})
			return made
		}
		return nil
	}
	b := &modelBatch{id: job.NewID(m.at, m.seq, 0), seq: m.seq, at: m.at, joined: c.Joined, submission: of}
	if m.batches = append(m.batches, b); of != nil {
		b.base = of.lines - int64(c.Lines())
		of.parts = append(of.parts, b)
	}
	body := c.Payloads
	for i, g := range c.Groups {
		name := row.QueueName{g.Client, g.Type}
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
				if holder := m.keys[name][key]; holder.holdsKey() {
					j.status = job.Purged
					if of != nil {
						of.holes++
					}
					made.Existing = append(made.Existing, applied.Existing{j.id.Line(), holder.id})
					continue
				}
				j.key, m.keys[name][key] = key, j
			}
			m.tally(j).Created++
			if of != nil && of.status == job.BatchPaused {
				j.status, j.runAt, j.movedAt, j.heldBack = job.Deferred, job.MaxTimeMs, m.at, true
			} else if g.RunAt > m.at {
				j.status, j.runAt, j.movedAt = job.Deferred, g.RunAt, m.at
			} else {
				m.makePending(j)
			}
		}
	}
	m.dropGone(b)
	if c.Once.Given() {
		m.keepOnce(&c.Once, modelOnce{made: made})
	} else if len(c.Unique) == 0 && c.Into.IsZero() {
		return nil
	}
	return made
}

// holdsKey reports whether a job has its unique key. A job that the end of its batch is about to cancel does not have
// it.
func (j *modelJob) holdsKey() bool { return j.Unfinished() && !j.batch.submission.Ended() }

func (j *modelJob) Unfinished() bool {
	return j != nil && (j.status.Waits() || j.status == job.Active)
}

// makePending adds a job to its lane: a fresh job after all jobs that became pending earlier.
func (m *model) makePending(j *modelJob) {
	j.status, j.movedAt, j.order, j.runAt, j.heldBack = job.Pending, m.at, m.seq, 0, false
	j.queue.readied = true
}
