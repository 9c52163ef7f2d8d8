package sim

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// account is the knowledge of the server's users: their requests and the answers that they got. It does not depend on how
// the server works. Its answers are checked against the results of the journal's commands (answers.go).
type account struct {
	mu      sync.Mutex
	batches map[string]*batch // by tag
	// submissions are the batches with attributes, in the order in which they were posted.
	submissions []*submission
	ids         map[job.ID]*batch     // by the id of the first job, from the answer or the journal; see batchOf
	toRepeat    []*batch              // creates with a key or number whose answer was lost
	keyed       map[job.Once]job.ID   // claims that were answered under an idempotency key
	endedJobs   []job.ID              // jobs that were answered as ended, and that operators do not move
	terminal    map[job.ID]job.Status // the terminal status of each of them
	lost        map[[2]job.ID]bool    // by claim and job: begun runs that ended with their stream
	setAside    []job.ID              // jobs that were set aside as damaged, for operators to run
	answers     []answer              // that were not checked yet
	pushes      []push
	silences    map[string][]uint64 // by runner: the commands that ended leases which nobody had tickled
	figures     Figures
}

func newAccount() *account {
	return &account{
		batches: map[string]*batch{}, ids: map[job.ID]*batch{}, keyed: map[job.Once]job.ID{}, terminal: map[job.ID]job.Status{}, lost: map[[2]job.ID]bool{}, silences: map[string][]uint64{},
	}
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

// isMoved reports whether operators may move a job.
func (a *account) isMoved(id job.ID) bool {
	b := a.batchOf(id)
	return b != nil && b.moved
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
		if !b.create.Joined {
			a.answer(b.by, r, &b.create, &made)
		}
	}
	return nil
}

// claimed records the jobs that a claim handed out.
func (a *account) claimed(by *job.Key, r ingest.Receipt, c job.Claim, claimed applied.Claimed, docs []job.Job) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(docs) == 0 {
		return nil
	}
	a.figures.Claims++
	if c.Once.Given() {
		if before, twice := a.keyed[c.Once]; twice && before != claimed.Claim {
			return fmt.Errorf("a claim under the key %q was answered as %v, and its repeat as %v", c.Once.Key, before, claimed.Claim)
		}
		a.keyed[c.Once] = claimed.Claim
	}
	for i := range docs {
		if doc := &docs[i]; doc.Status != job.Active || doc.Claim != claimed.Claim || doc.Runner != c.Runner {
			return fmt.Errorf("claim %v of %s hands out %+v", claimed.Claim, c.Runner, *doc)
		}
	}
	a.answer(by, r, c, &claimed, slices.Clone(docs)...)
	return nil
}

// completed records the answer to a completion.
func (a *account) completed(by *job.Key, r ingest.Receipt, c job.Complete, ended applied.Ended) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.figures.Ends++
	if len(ended.Results) != len(c.Outcomes) {
		return fmt.Errorf("%d outcomes have %d results", len(c.Outcomes), len(ended.Results))
	}
	for i, result := range ended.Results {
		if result.ID != c.Outcomes[i].ID {
			return fmt.Errorf("result %d belongs to %v, not %v", i, result.ID, c.Outcomes[i].ID)
		}
		if result.Refusal != job.Granted {
			continue
		}
		run := [2]job.ID{c.Claim, result.ID}
		switch code := c.Outcomes[i].Code; {
		case code == job.Damaged:
			a.setAside = append(a.setAside, result.ID)
			a.figures.SetAside++
		case code == job.Lost:
			a.lost[run] = true
			a.figures.LostRuns++
		case a.lost[run]:
			delete(a.lost, run)
			a.figures.LateAfterLoss++
		}
		if c.Unclaimed {
			a.figures.Unclaimed++
		}
		if result.Status.Terminal() && !a.isMoved(result.ID) {
			if _, twice := a.terminal[result.ID]; !twice {
				a.endedJobs = append(a.endedJobs, result.ID)
			}
			a.terminal[result.ID] = result.Status
		}
	}
	a.answer(by, r, c, &ended)
	return nil
}

// answered records the answer to any other request.
func (a *account) answered(by *job.Key, r ingest.Receipt, cmd job.Command, result applied.Result) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch result := result.(type) {
	case *applied.DocumentChanged:
		if result.Refusal == job.VersionDiffers {
			a.figures.Differing++
		} else {
			a.figures.Documents++
		}
	case *applied.Tickled:
	default:
		a.figures.Operations++
		if deleted, is := result.(*applied.QueueDeleted); is && deleted.Refusal == job.Granted {
			a.figures.Queues++
		}
	}
	a.answer(by, r, cmd, result)
}
