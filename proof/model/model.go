package model

import (
	"cmp"
	"reflect"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
)

// Model is the state of all jobs, as the rules say that it follows from the commands.
type Model struct {
	bounds Bounds
	seed   uint64 // of random choices
	Seq    uint64 // of the last command
	At     int64
	dueAt  int64 // until when the current command does what is due: At, or the AsOf of a tick

	Jobs        map[job.ID]*Job
	Batches     []*Batch // in order of seq
	Queues      map[Name]*Queue
	order       []*Queue // in the order of their creation
	keys        map[Name]map[string]*Job
	Claims      map[job.ID]*Claim
	ends        []purgedEnd
	Runners     map[string]*runner
	served      string // the client that fair served last
	Stopped     bool
	graceAt     int64
	Sweeps      []*Sweep
	Submissions []*Submission // in order of seq
	once        map[[2]string]*once
	Sessions    map[job.ID]*Session
	Documents   Documents
	Audit       []document.Audited // all commands of operators and admins
	Scoped      map[uint64]bool    // those of keys with a scope, by seq
	Tallies     map[Name]*Tally    // the events of the jobs of queues

	By    *job.Actor // who sent the current command
	chain job.Create // the jobs that the current completion creates: a group each
	seen  *Seen      // of the current command; nil: it does all of its work
	took  *took      // if the current command is a claim that may take fewer jobs than it can; otherwise nil
	// Of a tick of a store: the moves that follow the current one, and the sweeps that did not take jobs that were
	// returned.
	later  []Move
	spared []job.ID
}

// PayloadBytes is the size of the job's payload.
func (j *Job) PayloadBytes() int64 { return int64(len(j.payload)) }

// Name is the name of a queue of a client.
type Name struct{ Client, Name string }

// Bounds are the numbers that the results of commands depend on.
type Bounds struct {
	CommandRows                        int // how many idle queues one command deletes
	Sessions                           uint64
	DocumentVersions, DeletedDocuments int
	Documents                          [job.NumDocumentKinds]DocumentBounds
}

// Standard are the bounds of a server, and Small the bounds of a store with Options.Small. TestModelBounds of package
// store compares both with the store's.
var (
	Standard = Bounds{CommandRows: 1000, Sessions: job.MaxSessions, DocumentVersions: job.MaxDocumentVersions, DeletedDocuments: job.MaxDeletedDocuments, Documents: boundsOfKinds(func(r *job.DocumentRules) DocumentBounds {
		return DocumentBounds{r.MaxNames, r.MaxTotal}
	})}
	Small = Bounds{CommandRows: 30, Sessions: 500, DocumentVersions: 3, DeletedDocuments: 4, Documents: boundsOfKinds(func(*job.DocumentRules) DocumentBounds {
		return DocumentBounds{4, 400}
	})}
)

func boundsOfKinds(of func(*job.DocumentRules) DocumentBounds) (all [job.NumDocumentKinds]DocumentBounds) {
	for kind := range job.DocumentKinds {
		all[kind] = of(kind.Rules())
	}
	return all
}

// Sweep is a sweep, running or ended.
type Sweep struct {
	ID    job.ID
	Seq   uint64
	Move  job.Move
	Owner string
	moved int64
	Ended bool // in the store it no longer runs
}

// Batch has the jobs of one create.
type Batch struct {
	ID         job.ID
	Seq        uint64
	At         int64
	Lines      []*Job
	Joined     bool        // its jobs belong to no batch that users see
	Submission *Submission // that the batch is a part of; nil: it is a standalone batch
	Base       int64       // of a part: the number of its first line in the submission
	lost       job.Counts  // of a standalone batch: purged jobs, by their last status
	failed     job.ID      // of a standalone batch: the first job that failed and was not redriven since
	endedAt    int64       // of a standalone batch: when its last job ended
}

// shown returns the id of the batch as users see it.
func (b *Batch) shown() job.ID {
	switch {
	case b.Joined:
		return job.ID{}
	case b.Submission != nil:
		return b.Submission.ID
	}
	return b.ID
}

// Queue is the queue of a client and a type.
type Queue struct {
	Name      Name
	idleAt    int64 // since when it has been without jobs, or when it was resumed; meaningless while it has jobs or is paused
	Paused    bool
	createdAt int64
	readied   bool // it got pending jobs or was resumed since the last TakeReadied
}

// Job is one job.
type Job struct {
	ID      job.ID
	Batch   *Batch
	Queue   *Queue
	group   int       // its number in the batch
	Attr    job.Group // including changes by patches
	payload []byte
	key     string

	Status   job.Status
	cameBack bool
	order    uint64 // of a fresh pending job: the seq that made it pending
	runAt    int64  // of a deferred job
	endedAt  int64  // of a terminal job
	code     job.Code
	exitCode int
	attempts int
	movedAt  int64  // when it entered its present status
	claim    *Claim // that holds the job or ended its last run
	Tickle   tickle // of an active job
	history  []job.Attempt
	redrives int
	why      job.Why
	timeout  int64      // of an active job; 0: none
	redriven uint64     // the seq of the last redrive
	heldBack bool       // it has not moved since its creation in a paused batch
	last     job.Status // before it was purged

	result        job.Result
	resultClaim   *Claim
	step          string
	progress      int64
	progressClaim *Claim
	steps         []job.Step
}

// tickle is the last tickle of a job: of the job itself or of its whole claim, or otherwise the claim.
type tickle struct {
	seq       uint64
	At, lease int64
}

// Claim is a claim that handed out jobs.
type Claim struct {
	ID          job.ID
	Seq         uint64
	Runner      string
	lease       int64
	Handed      []*Job
	begins      int           // how many began with the claim
	begun       map[*Job]bool // runs that have begun; nil: all have
	cancelledAt int64         // when one of its jobs was cancelled; 0: never, or the runner was notified for long enough
}

// runner is the state of a runner's tickles of everything that it holds. It is deleted when the runner no longer
// holds a job.
type runner struct {
	At       int64  // of its last tickle of everything
	plainAt  int64  // of the last such tickle without a lease: each job's own lease then starts again
	until    int64  // the latest end that a tickle with a lease promised
	untilSeq uint64 // seq of the last tickle with a lease
}

// New returns the model of an empty store. journal is the journal's UUID, from which random choices follow.
func New(journal string, bounds Bounds) *Model {
	return &Model{
		bounds: bounds, seed: job.Seed(journal), Jobs: map[job.ID]*Job{}, Queues: map[Name]*Queue{}, keys: map[Name]map[string]*Job{}, Claims: map[job.ID]*Claim{},
		Runners: map[string]*runner{}, once: map[[2]string]*once{}, Sessions: map[job.ID]*Session{}, Documents: Documents{map[DocumentName][]Version{}, map[job.DocumentKind]int{}},
		Tallies: map[Name]*Tally{}, By: &job.Actor{}, Scoped: map[uint64]bool{},
	}
}

// Apply carries out one command, with all of its work, and returns its result.
func (m *Model) Apply(seq uint64, at int64, cmd job.Command) applied.Result {
	return m.apply(seq, at, cmd, nil)
}

// begin sets the time of a command.
func (m *Model) begin(seq uint64, at int64, cmd job.Command) {
	m.Seq, m.At = seq, max(at, m.At)
	m.dueAt = m.At
	if tick, is := cmd.(job.Tick); is && tick.AsOf > 0 {
		m.dueAt = min(m.dueAt, tick.AsOf)
	}
}

// apply carries out one command, and notes it in the audit.
func (m *Model) apply(seq uint64, at int64, cmd job.Command, moves []Move) applied.Result {
	result := m.carryOut(seq, at, cmd, moves)
	if !job.IsAudited(cmd) {
		return result
	}
	entry := document.Audited{Seq: m.Seq, At: m.At, By: m.By.Name, Verb: cmd.Verb(), Fields: job.AuditedFields(cmd)}
	if result != nil {
		if refusal := reflect.ValueOf(result).Elem().FieldByName("Refusal"); refusal.IsValid() {
			entry.Refusal = refusal.Interface().(job.Refusal)
		}
	}
	if entry.Refusal == job.Granted || m.By.All() {
		m.Audit = append(m.Audit, entry)
		m.Scoped[entry.Seq] = !m.By.All()
	}
	return result
}

// carryOut carries out one command. moves are the jobs that a store moved, if the command may do any share of its work; nil:
// the command does all of it.
func (m *Model) carryOut(seq uint64, at int64, cmd job.Command, moves []Move) applied.Result {
	m.begin(seq, at, cmd)
	defer m.noteBatchEnds(m.unfinishedBatches())
	defer m.noteIdle(m.idle()) // after settle, which may delete the last jobs of a queue
	defer func() { m.settle(moves) }()
	defer m.forgetRunners()
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
		q := m.Queues[Name{cmd.Client, cmd.Type}]
		if q == nil {
			return &applied.Paused{Refusal: job.QueueNotFound}
		}
		q.readied = q.readied || q.Paused && !cmd.Paused
		q.Paused = cmd.Paused
		return &applied.Paused{}
	case job.DeleteQueue:
		name := Name{cmd.Client, cmd.Type}
		switch q := m.Queues[name]; {
		case q == nil:
			return &applied.QueueDeleted{Refusal: job.QueueNotFound}
		case m.hasJobs(q):
			return &applied.QueueDeleted{Refusal: job.QueueNotEmpty}
		}
		m.deleteQueue(name)
		return &applied.QueueDeleted{}
	case job.DeleteIdleQueues:
		result, idle := &applied.IdleQueuesDeleted{}, m.idle()
		line := slices.DeleteFunc(slices.Clone(m.order), func(q *Queue) bool { return !idle[q] || q.idleAt+cmd.IdleMs > m.At })
		slices.SortStableFunc(line, func(a, b *Queue) int { return cmp.Compare(a.idleAt, b.idleAt) })
		for _, q := range line[:min(len(line), m.bounds.CommandRows)] {
			m.deleteQueue(q.Name)
			result.Queues++
		}
		return result
	case job.Switch:
		for _, q := range m.Queues {
			q.readied = q.readied || m.Stopped && !cmd.Stopped
		}
		m.Stopped = cmd.Stopped
		return &applied.Switched{Stopped: cmd.Stopped}
	case job.Move:
		if cmd.Job.IsZero() {
			return m.startSweep(cmd, moves)
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
	case job.PutDocument:
		return m.putDocument(cmd)
	case job.DeleteDocument:
		return m.deleteDocument(cmd)
	case job.LoseRunner:
		return m.loseRunner(cmd, moves)
	case job.Tick:
		if moves == nil {
			_ = m.expireSessions(nil) // deletes all sessions that are due
		}
		m.tick(moves)
	case job.Grace:
		m.graceAt = m.At
	case job.SetLevel, job.SetHistory: // the decisions of all levels are the same, and none depends on history
	}
	return nil
}

func (m *Model) hasJobs(q *Queue) bool {
	for _, j := range m.Jobs {
		if j.Queue == q && j.Status != job.Purged {
			return true
		}
	}
	return false
}

// idle returns the queues without jobs that are not paused.
func (m *Model) idle() map[*Queue]bool {
	idle := map[*Queue]bool{}
	for _, q := range m.Queues {
		if !q.Paused && !m.hasJobs(q) {
			idle[q] = true
		}
	}
	return idle
}

// noteIdle records the time for queues that are idle now and were not before.
func (m *Model) noteIdle(before map[*Queue]bool) {
	for q := range m.idle() {
		if !before[q] {
			q.idleAt = m.At
		}
	}
}

func (m *Model) deleteQueue(name Name) {
	m.order = slices.DeleteFunc(m.order, func(q *Queue) bool { return q.Name == name })
	delete(m.Queues, name)
	delete(m.keys, name)
}

func (m *Model) create(c *job.Create) *applied.Made {
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
	made := &applied.Made{Batch: job.NewID(m.At, m.Seq, 0), Seq: m.Seq, Lines: c.Lines(), Group: c.Groups[0]}
	made.Group.By = cmp.Or(made.Group.By, m.By.Name)
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
			m.keepOnce(&c.Once, once{made: made})
			return made
		}
		return nil
	}
	b := &Batch{ID: job.NewID(m.At, m.Seq, 0), Seq: m.Seq, At: m.At, Joined: c.Joined, Submission: of}
	if m.Batches = append(m.Batches, b); of != nil {
		b.Base = of.Lines - int64(c.Lines())
		of.Parts = append(of.Parts, b)
	}
	body := c.Payloads
	for i, g := range c.Groups {
		name := Name{g.Client, g.Type}
		g.By = cmp.Or(g.By, m.By.Name)
		if m.Queues[name] == nil {
			m.Queues[name] = &Queue{Name: name, createdAt: m.At}
			m.order = append(m.order, m.Queues[name])
			m.keys[name] = map[string]*Job{}
		}
		if of != nil && !slices.Contains(of.queues, m.Queues[name]) {
			of.queues = append(of.queues, m.Queues[name])
		}
		for range g.Lines {
			j := &Job{ID: b.ID.WithLine(len(b.Lines)), Batch: b, Queue: m.Queues[name], group: i, Attr: g, progress: -1}
			var err error
			if j.payload, body, err = c.Frame.Next(body); err != nil {
				panic(err)
			}
			b.Lines = append(b.Lines, j)
			m.Jobs[j.ID] = j
			if key := unique[j.ID.Line()]; key != "" {
				if holder := m.keys[name][key]; holder.holdsKey() {
					j.Status = job.Purged
					if of != nil {
						of.holes++
					}
					made.Existing = append(made.Existing, applied.Existing{j.ID.Line(), holder.ID})
					continue
				}
				j.key, m.keys[name][key] = key, j
			}
			m.tally(j).Created++
			if of != nil && of.Status == job.BatchPaused {
				j.Status, j.runAt, j.movedAt, j.heldBack = job.Deferred, job.MaxTimeMs, m.At, true
			} else if g.RunAt > m.At {
				j.Status, j.runAt, j.movedAt = job.Deferred, g.RunAt, m.At
			} else {
				m.makePending(j)
			}
		}
	}
	m.dropGone(b)
	if c.Once.Given() {
		m.keepOnce(&c.Once, once{made: made})
	} else if len(c.Unique) == 0 && c.Into.IsZero() {
		return nil
	}
	return made
}

// holdsKey reports whether a job has its unique key. A job that the end of its batch is about to cancel does not have
// it.
func (j *Job) holdsKey() bool { return j.Unfinished() && !j.Batch.Submission.Ended() }

func (j *Job) Unfinished() bool {
	return j != nil && (j.Status.Waits() || j.Status == job.Active)
}

// makePending adds a job to its lane: a fresh job after all jobs that became pending earlier.
func (m *Model) makePending(j *Job) {
	j.Status, j.movedAt, j.order, j.runAt, j.heldBack = job.Pending, m.At, m.Seq, 0, false
	j.Queue.readied = true
}
