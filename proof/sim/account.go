package sim

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// account is the knowledge of the server's users: their requests and the answers that they got. It does not depend on how
// the server works. The audit (audit.go) checks the server against it.
type account struct {
	mu      sync.Mutex
	batches map[string]*batch // by tag
	// submissions are the batches with attributes, in the order in which they were posted.
	submissions []*submission
	finished    bool // everything must have ended by now
	events      []event
	uncertain   map[job.ID]*uncertainty // requests without an answer that may have changed a job
	ids         map[job.ID]*batch       // by the id of the first job, from the answer or the journal; see batchOf
	toRepeat    []*batch                // creates with a key or number whose answer was lost
	keyed       map[job.Once]job.ID     // claims that were answered under an idempotency key
	endedJobs   []job.ID                // jobs that were answered as ended
	terminal    map[job.ID]job.Status   // the terminal status of each of them
	figures     Figures

	lostClaims int                 // claims whose answer was lost
	silences   map[string][]uint64 // by runner: the commands that ended leases which nobody had tickled

	setAside []job.ID // jobs that were set aside as damaged, for operators to run
	operationRecords
}

func newAccount() *account {
	return &account{
		batches: map[string]*batch{}, uncertain: map[job.ID]*uncertainty{}, ids: map[job.ID]*batch{}, keyed: map[job.Once]job.ID{}, terminal: map[job.ID]job.Status{}, silences: map[string][]uint64{},
		operationRecords: operationRecords{
			upTo: math.MaxUint64, inJournal: map[uint64]string{}, decisions: map[uint64]decision{}, queues: map[[2]string]uint64{},
		},
	}
}

// uncertainty holds the changes that requests without an answer may have made to a job.
type uncertainty struct {
	ended map[job.ID]bool // the claims that may have ended a run of it; the zero claim: a completion without a claim
	unget bool
}

func (a *account) uncertaintyOf(id job.ID) *uncertainty {
	m := a.uncertain[id]
	if m == nil {
		m = &uncertainty{ended: map[job.ID]bool{}}
		a.uncertain[id] = m
	}
	return m
}

// event is a change that was answered, at its place in the journal.
type event struct {
	seq   uint64
	at    int64
	text  string
	check func(*audit) error // checks the event against the earlier ones

	recorded int // 1: the command itself, as the journal has it
}

func (a *account) note(r ingest.Receipt, text string, hold func(*audit) error) {
	a.events = append(a.events, event{seq: r.Seq, at: r.At, text: text, check: hold})
}

// batchOf returns the create that made a job, or nil if it is not known.
func (a *account) batchOf(id job.ID) *batch {
	if b := a.ids[id]; b != nil && b.create.Joined {
		return b
	}
	if b := a.ids[id.WithLine(0)]; b != nil && !b.create.Joined {
		return b
	}
	return nil
}

// shown returns the id of the batch that the document of a job must show.
func (a *account) shown(id job.ID) job.ID {
	if b := a.batchOf(id); b != nil {
		return b.shown(id)
	}
	return id.WithLine(0)
}

// know records the id of a create's first job, from which the ids of its other jobs follow.
func (a *account) know(b *batch, first job.ID) {
	a.ids[first], b.first = b, first
	if b.create.Joined {
		for line := range b.payloads {
			a.ids[first.WithLine(first.Line()+line)] = b
		}
	}
}

// tagOf returns the tag with which a payload begins.
func tagOf(payload []byte) string {
	tag, _, _ := strings.Cut(string(payload), "/")
	return tag
}

// lineOf returns the line of a job in its create. It reads it from the payload.
func lineOf(payload []byte) int {
	_, rest, _ := strings.Cut(string(payload), "/")
	digits, _, _ := strings.Cut(rest, "/")
	line, err := strconv.Atoi(digits)
	if err != nil {
		return math.MaxInt
	}
	return line
}

// created records the answer to a create.
func (a *account) created(b *batch, made applied.Made, r ingest.Receipt, f createResult) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if b.result == stored { // an earlier request of this create was answered first
		if id := job.NewID(r.At, r.Seq, 0); f == stored && id != b.id {
			return fmt.Errorf("create %q was answered as batch %v, and its repeat as %v", b.tag, b.id, id)
		}
		return nil
	}
	if b.lost && f == rejected {
		f = unknown // the server refused only the repeat; it may still have carried out the earlier request
	}
	if b.result = f; f == unknown && b.create.Once.Given() {
		b.lost = true
		a.toRepeat = append(a.toRepeat, b)
	}
	if f == declined {
		a.figures.Declined++
	}
	if f == stored {
		b.omitted = map[int]bool{}
		for _, x := range made.Existing {
			b.omitted[x.Line] = true
		}
		if b.id = job.NewID(r.At, r.Seq, 0); b.create.Joined {
			b.id = made.First
		}
		adds := !b.create.Into.IsZero()
		if b.id.WithLine(0) != job.NewID(r.At, r.Seq, 0) || (b.create.Joined || adds) == made.First.IsZero() || adds && (made.First != b.id || made.Batch != b.create.Into) {
			return fmt.Errorf("create %q was answered with %+v at %+v", b.tag, made, r)
		}
		if other := a.ids[b.id]; other != nil && other != b {
			return fmt.Errorf("creates %q and %q were both answered with %v", b.tag, other.tag, b.id)
		}
		a.know(b, b.id)
		a.figures.Creates++
		if adds {
			a.figures.Added++
		}
		a.figures.Jobs += len(b.payloads)
		if len(made.Existing) > 0 {
			a.note(r, fmt.Sprintf("create %s leaves out %d lines", b.tag, len(made.Existing)), func(u *audit) error { return u.checkExisting(r, b, made) })
		}
	}
	return nil
}

// claimed records the jobs that a claim handed out.
func (a *account) claimed(r ingest.Receipt, c job.Claim, answer applied.Claimed, docs []job.Job) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(docs) == 0 {
		return nil
	}
	a.figures.Claims++
	if c.Once.Given() {
		if before, twice := a.keyed[c.Once]; twice && before != answer.Claim {
			return fmt.Errorf("a claim under the key %q was answered as %v, and its repeat as %v", c.Once.Key, before, answer.Claim)
		}
		a.keyed[c.Once] = answer.Claim
	}
	// Documents are read after the claim has been applied, so a job may have been deleted in between.
	if n := answer.Jobs(); len(docs) > n || len(docs) < n && !answer.Replayed && !slices.Contains(c.Types, movedType) && !slices.Contains(c.Types, filledType) || len(docs) > c.Max {
		return fmt.Errorf("a claim of at most %d jobs was answered with %d jobs and %d documents", c.Max, answer.Jobs(), len(docs))
	}
	for i := range docs {
		doc := &docs[i]
		if doc.Hops == 0 { // the audit compares chained jobs with the journal instead
			b, err := a.match(doc)
			if err != nil {
				return err
			}
			if b.moved && b.result != stored { // the answer of its create was lost
				a.know(b, doc.ID.WithLine(0))
			}
		}
		if doc.Status != job.Active || doc.Claim != answer.Claim || doc.Runner != c.Runner {
			return fmt.Errorf("claim %v of %s hands out %+v", answer.Claim, c.Runner, *doc)
		}
		if !slices.Contains(c.Clients, doc.Client) && len(c.Clients) > 0 || !slices.Contains(c.Types, doc.Type) && len(c.Types) > 0 {
			return fmt.Errorf("claim %+v hands out a job of %s/%s", c, doc.Client, doc.Type)
		}
	}
	docs = slices.Clone(docs)
	a.note(r, fmt.Sprintf("claim %v by %s of %d jobs", answer.Claim, c.Runner, len(docs)), func(u *audit) error {
		u.claimants[answer.Claim] = claimant{c.Runner, answer.Seq, mayNotHaveBegun(&c, &answer, docs)}
		held := map[job.ID]bool{}
		for i := range docs {
			if a.isMoved(docs[i].ID) {
				u.movedClaims[answer.Claim] = append(u.movedClaims[answer.Claim], docs[i].ID)
				if err := u.handOutMoved(r, &docs[i]); err != nil {
					return err
				}
				continue
			}
			if err := u.handOut(r, &docs[i]); err != nil {
				return err
			}
			held[docs[i].ID] = true
			if _, again := u.chained[docs[i].ID]; !again && docs[i].Hops > 0 {
				u.chained[docs[i].ID] = r.At
			}
		}
		u.claims[answer.Claim] = held
		return nil
	})
	return nil
}

// match finds the batch of a document, and compares the attributes that never change. The caller holds a.mu.
func (a *account) match(doc *job.Job) (*batch, error) {
	b := a.batches[tagOf(doc.Payload)]
	if b == nil {
		return nil, fmt.Errorf("job %v has a payload that nobody posted: %q", doc.ID, doc.Payload)
	}
	line := lineOf(doc.Payload)
	if b.result == rejected || b.result == declined {
		return nil, fmt.Errorf("job %v belongs to a create that was answered as not stored, or refused", doc.ID)
	}
	if b.result == stored && doc.ID != b.job(line) || line >= len(b.payloads) || !b.create.Joined && line != doc.ID.Line() || doc.Batch != b.shown(doc.ID) {
		return nil, fmt.Errorf("job %v has the payload %[4]q, which belongs to batch %[2]v with %[3]d lines", doc.ID, b.id, len(b.payloads), doc.Payload)
	}
	if string(doc.Payload) != b.payloads[line] {
		return nil, fmt.Errorf("job %v has payload %q, posted was %q", doc.ID, doc.Payload, b.payloads[line])
	}
	g := b.groups[line]
	patched := !b.moved && (doc.Priority != g.Priority || doc.MaxAttempts != g.MaxAttempts)
	if doc.Client != g.Client || doc.Type != g.Type || doc.Kind != g.Kind || patched {
		return nil, fmt.Errorf("job %v is %+v, posted was %+v", doc.ID, *doc, *g)
	}
	return b, nil
}

// tickled records the answer to a tickle of a whole claim, or of some of its jobs.
func (a *account) tickled(r ingest.Receipt, t job.Tickle, leaseMs int64, answer applied.Tickled) {
	a.mu.Lock()
	defer a.mu.Unlock()
	lost := map[job.ID]bool{}
	for _, l := range answer.Lost {
		lost[l.ID] = true
	}
	a.note(r, fmt.Sprintf("tickle of %v holds %d", t.Claim, answer.Held), func(u *audit) error {
		if u.movedClaims[t.Claim] != nil {
			return u.tickledMoved(r, &t, &answer)
		}
		named := map[job.ID]bool{}
		for _, id := range t.IDs {
			named[id] = true
		}
		whole := len(named) == 0
		if whole {
			named = u.claims[t.Claim]
		}
		held, unsure := 0, 0
		for id := range named {
			if lost[id] || answer.Refusal != job.Granted {
				if err := u.refused(r, t.Claim, id, "tickle"); err != nil {
					return err
				}
				continue
			}
			if whole && u.done[[2]job.ID{t.Claim, id}] {
				continue // the answer neither counts the job as held nor lists it as lost
			}
			// The answer lists a job that the claim no longer holds only if the job has a document. The job may have
			// failed at the end of its last lease, or ended under another claim, and been purged since.
			if l := u.of(id); whole && (u.mayHaveEnded(id) || r.At >= l.deadline && l.attempts >= l.max || l.holder != t.Claim && l.status.Terminal()) {
				unsure++
				continue
			}
			held++
			if err := u.tickled(r, t.Claim, id, leaseMs); err != nil {
				return err
			}
		}
		if answer.Held < held || answer.Held > held+unsure {
			return fmt.Errorf("the answer counts %d held jobs, and its list allows %d to %d", answer.Held, held, held+unsure)
		}
		return nil
	})
}

// completed records the answer to a completion.
func (a *account) completed(r ingest.Receipt, c job.Complete, answer applied.Ended) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.figures.Ends++
	if len(answer.Results) != len(c.Outcomes) {
		return fmt.Errorf("%d outcomes have %d results", len(c.Outcomes), len(answer.Results))
	}
	for i, result := range answer.Results {
		if result.ID != c.Outcomes[i].ID {
			return fmt.Errorf("result %d belongs to %v, not %v", i, result.ID, c.Outcomes[i].ID)
		}
		if result.Refusal == job.Granted && c.Outcomes[i].Code == job.Damaged {
			a.setAside = append(a.setAside, result.ID)
			a.figures.SetAside++
		}
		if result.Refusal == job.Granted && c.Unclaimed {
			a.figures.Unclaimed++
		}
		if result.Refusal == job.Granted && c.Outcomes[i].Code == job.Lost {
			a.figures.LostRuns++
		}
		if result.Refusal == job.Granted && result.Status.Terminal() && !a.isMoved(result.ID) {
			a.remember(result.ID, result.Status)
		}
	}
	a.note(r, fmt.Sprintf("complete of %v: %d outcomes, all %v", c.Claim, len(c.Outcomes), c.All != nil), func(u *audit) error {
		if u.movedClaims[c.Claim] != nil || len(c.Outcomes) > 0 && a.isMoved(c.Outcomes[0].ID) {
			return u.endedMoved(r, &c, &answer)
		}
		named := map[job.ID]bool{}
		for i, result := range answer.Results {
			named[result.ID] = true
			var err error
			switch {
			case result.Refusal == job.Granted:
				if err = u.ended(r, c.Claim, &c.Outcomes[i], result.Status); c.Unclaimed {
					u.endedUnclaimed(result.ID)
				}
			case c.Unclaimed:
				err = u.refusedUnclaimed(r, result)
			default:
				if err = u.refusedRepeat(r, c.Claim, &c.Outcomes[i], result.Refusal); err == nil {
					err = u.refused(r, c.Claim, result.ID, "complete")
				}
			}
			if err != nil {
				return err
			}
		}
		if c.All != nil {
			return u.endedAll(r, &c, named, &answer)
		}
		return nil
	})
	return nil
}

// remember records a terminal status from an answer, for later reads. The caller holds a.mu.
func (a *account) remember(id job.ID, status job.Status) {
	if _, twice := a.terminal[id]; !twice {
		a.endedJobs = append(a.endedJobs, id)
	}
	a.terminal[id] = status
}

// unanswered records a completion without an answer. The server may have carried it out, or may do so until its life
// ends.
func (a *account) unanswered(c job.Complete, held []job.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	mark := func(id job.ID, o *job.Outcome) {
		m := a.uncertaintyOf(id)
		m.ended[c.Claim] = true
		m.unget = m.unget || o.Code == job.Unget || o.Code == job.Damaged
	}
	for i := range c.Outcomes {
		mark(c.Outcomes[i].ID, &c.Outcomes[i])
	}
	if c.All != nil {
		for _, id := range held {
			mark(id, c.All)
		}
	}
}

// ordered returns the events in the order of the journal, as far as the journal has been read. The caller holds a.mu.
func (a *account) ordered() []event {
	slices.SortStableFunc(a.events, func(x, y event) int {
		if c := cmp.Compare(x.seq, y.seq); c != 0 {
			return c
		}
		return cmp.Compare(y.recorded, x.recorded) // first the command, then the answer to it
	})
	end, _ := slices.BinarySearchFunc(a.events, a.upTo, func(e event, seq uint64) int {
		if e.seq <= seq {
			return -1
		}
		return 1
	})
	return a.events[:end]
}
