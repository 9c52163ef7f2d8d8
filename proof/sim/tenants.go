package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/proof/model"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/query"
)

// tenant is a user with a key for some clients or types only. Two of them and users without a key share a server. Nobody without
// a key creates jobs for their clients. They create, claim, work and move jobs like other users, and try the same with
// the things of others.
type tenant struct {
	key     *job.Key
	numbers *numbering // of its creates
	runner  *runner
}

// newTenants returns two tenants. The second one has jobs of some types only, but its clients have no others.
func newTenants() (list []*tenant) {
	for name, scope := range []job.Scope{{Clients: []string{"anna"}}, {Clients: []string{"bob", "bob-too"}, Types: []string{"mail", "resize", movedType}}} {
		name := []string{"anna", "bob"}[name]
		key := &job.Key{Actor: job.Actor{Name: name, Scope: scope}, Roles: job.RolesOf(job.RoleOperator), RunnerPrefix: name + "-"}
		list = append(list, &tenant{key: key, numbers: newNumbering(), runner: &runner{name: name + "-runner", numbers: newNumbering()}})
	}
	return list
}

// client returns a client whose jobs the user creates.
func (u *user) client() string {
	if u.key == nil {
		return pick(u.random, "acme", "default")
	}
	return pick(u.random, u.key.Clients...)
}

// prefix returns the beginning of the ids of the user's runners.
func (u *user) prefix() string {
	if u.key == nil {
		return ""
	}
	return u.key.RunnerPrefix
}

// rent plays a tenant until the life ends.
func (s *server) rent(id int, t *tenant) {
	u := s.user(id)
	u.key = t.key
	for u.rest(150 * time.Millisecond) {
		u.heartbeat(t.runner)
		switch n := u.random.IntN(100); {
		case n < 20:
			b := u.unansweredCreate()
			if b == nil {
				b = u.batch(t.numbers)
			}
			u.post(b)
		case n < 25:
			u.post(u.alone())
		case n < 30: // also jobs of others: then the server must refuse it
			u.move()
		case n < 42:
			u.trespass()
		case n < 52:
			u.overreach()
		case n < 75 || len(t.runner.held) == 0:
			u.claim(t.runner)
		case n < 84:
			u.tickle(t.runner)
		default:
			u.complete(t.runner)
		}
	}
}

// others returns a create of somebody else, or nil.
func (u *user) others() *batch {
	a := u.w.account
	a.mu.Lock()
	defer a.mu.Unlock()
	var known []*batch
	for _, tag := range a.tags() {
		if b := a.batches[tag]; b.by != u.key && b.result == stored && len(b.payloads) > 0 {
			known = append(known, b)
		}
	}
	if len(known) > 20 {
		known = known[len(known)-20:]
	}
	if len(known) == 0 {
		return nil
	}
	return known[u.random.IntN(len(known))]
}

// trespass sends a command with the ids of something that belongs to others. The server carries it out, as one about nothing:
// the model and withinScope check the answers.
func (u *user) trespass() {
	b := u.others()
	if b == nil {
		return
	}
	id := b.job(u.random.IntN(len(b.payloads)))
	claim := u.w.runners[u.random.IntN(len(u.w.runners))].lastClaim()
	a := u.w.account
	switch u.random.IntN(6) {
	case 0:
		t := job.Tickle{IDs: []job.ID{id}, Progress: -1, LeaseMs: 6000}
		if u.random.IntN(2) == 0 && !claim.IsZero() {
			t = job.Tickle{Claim: claim, Progress: -1, LeaseMs: 6000}
		}
		answer, receipt, err := send(u, u.s.engine.Tickle, t)
		u.unexpected("tickle of others", err)
		if err == nil {
			a.answered(u.key, receipt, t, &answer)
		}
	case 1, 2:
		c := job.Complete{Unclaimed: u.random.IntN(2) == 0, Outcomes: []job.Outcome{{ID: id, Code: job.OK, ExitCode: 200, DelayMs: -1}}}
		if u.random.IntN(2) == 0 {
			c.Unclaimed, c.Claim = false, claim
		}
		answer, receipt, err := send(u, u.s.engine.Complete, c)
		u.unexpected("complete of others", err)
		if err == nil {
			u.violated(a.completed(u.key, receipt, c, answer))
		}
	case 3:
		u.patch(id)
	case 4:
		m := job.Move{Op: pick(u.random, job.Cancel, job.Redrive, job.Run, job.Delete), Job: id}
		answer, receipt, err := send(u, u.s.engine.Move, m)
		u.unexpected("move of others", err)
		if err == nil {
			a.answered(u.key, receipt, m, &answer)
		}
	case 5:
		m := job.Move{Op: pick(u.random, job.Cancel, job.Redrive, job.Delete), Batch: b.shown()}
		if m.Batch.IsZero() {
			return
		}
		answer, receipt, err := send(u, u.s.engine.MoveAll, m)
		u.unexpected("move of a batch of others", err)
		if err == nil {
			a.answered(u.key, receipt, m, &answer)
		}
	}
	u.s.log("%s tries job %v of %s", u.key.Name, id, b.tag)
}

// lastClaim returns the newest claim that the runner holds, or zero.
func (r *runner) lastClaim() job.ID {
	if held := r.held; len(held) > 0 {
		return held[len(held)-1].claim
	}
	return job.ID{}
}

// overreach sends a command that names clients, types or runners which the key is not for. The server must refuse it, and the journal
// must not have it.
func (u *user) overreach() {
	theirs := pick(u.random, "acme", "default", "anna", "bob")
	if u.key.HasClient(theirs) {
		return
	}
	own := u.key.Clients[0]
	create := &job.Create{Frame: job.LineFrame, Payloads: []byte("forbidden/0/x\n"), Longest: len("forbidden/0/x"), Groups: []job.Group{{Lines: 1, Client: theirs, Type: "mail", Attributes: job.Attributes{
		Kind: job.Text, MaxAttempts: 1, LeaseMs: 1000, RetentionMs: 1000}}}}
	claim := job.Claim{Runner: u.key.RunnerPrefix + "x", Max: 1, MaxBytes: job.MaxClaimBytes, Types: []string{"mail"}}
	what := ""
	err := u.request(func(ctx context.Context) (err error) {
		switch u.random.IntN(6) {
		case 0:
			what = "create for another client"
			_, _, err = u.s.engine.Create(ctx, create)
		case 1:
			what = "claim for another client"
			claim.Clients = []string{own, theirs}
			slices.Sort(claim.Clients)
			_, _, _, err = u.s.engine.ClaimAdmitted(ctx, claim, 0, admitAll)
		case 2:
			what = "claim as a runner of others"
			claim.Runner = pick(u.random, "runner-0", "anna-runner", "bob-runner", u.key.RunnerPrefix)
			if len(claim.Runner) > len(u.key.RunnerPrefix) && claim.Runner[:len(u.key.RunnerPrefix)] == u.key.RunnerPrefix {
				claim.Runner = "runner-1"
			}
			_, _, _, err = u.s.engine.ClaimAdmitted(ctx, claim, 0, admitAll)
		case 3:
			what = "pause a queue of others"
			_, _, err = u.s.engine.Pause(ctx, job.Pause{Client: theirs, Type: "mail"})
		case 4:
			what = "stop all claims"
			_, _, err = u.s.engine.Switch(ctx, job.Switch{})
		case 5:
			what = "create a key"
			_, _, err = u.s.engine.PutDocument(ctx, model.SomeDocument(job.KeyDocument, "", documentNames[0], 0))
		}
		return err
	})
	u.s.log("%s would %s: %v", u.key.Name, what, err)
	switch {
	case errors.Is(err, job.ErrOutOfScope), errors.Is(err, job.QueueNotFound):
		a := u.w.account
		a.mu.Lock()
		a.figures.Trespasses++
		a.mu.Unlock()
	case err == nil:
		u.violated(fmt.Errorf("%s could %s, for which its key is not", u.key.Name, what))
	default:
		u.unexpected(what, err)
	}
}

// sameActor returns an error unless the actor of a record is the key of the request, or nobody for nil.
func sameActor(actor *job.Actor, by *job.Key) error {
	if want := by.By(); actor.Name != want.Name || !actor.Equal(&want.Scope) {
		return fmt.Errorf("it has the actor %+v, and the request was of %+v", *actor, *want)
	}
	return nil
}

// withinScope returns an error if the answer to a tenant has a job of others, or if a command about a thing of others was granted.
// The account alone decides whose a job is. The caller holds a.mu.
func (a *account) withinScope(x *answer) error {
	if x.by == nil {
		return nil
	}
	for i := range x.docs {
		doc := &x.docs[i]
		if !x.by.Has(doc.Client, doc.Type) {
			return fmt.Errorf("it has job %v of %s/%s, for which the key %s is not", doc.ID, doc.Client, doc.Type, x.by.Name)
		}
		if b := a.batches[tagOf(doc.Payload)]; b != nil && b.by != x.by {
			return fmt.Errorf("it has the payload of %s, which is not of %s", b.tag, x.by.Name)
		}
	}
	others := func(id job.ID) bool { b := a.batchOf(id); return b != nil && b.by != x.by }
	granted := func(id job.ID) error {
		if others(id) {
			return fmt.Errorf("it is about %v, which is not of %s", id, x.by.Name)
		}
		return nil
	}
	switch result := x.result.(type) {
	case *applied.Ended:
		for _, r := range result.Results {
			if r.Refusal == job.Granted {
				if err := granted(r.ID); err != nil {
					return err
				}
			}
		}
	case *applied.Moved:
		if m, is := x.cmd.(job.Move); is && result.Refusal != job.NotFound {
			return granted(m.Job)
		}
	case *applied.Swept:
		if m, is := x.cmd.(job.Move); is && result.Refusal != job.BatchNotFound && !m.Batch.IsZero() {
			return granted(m.Batch)
		}
	case *applied.Tickled:
		if t := x.cmd.(job.Tickle); result.Held > 0 && len(t.IDs) > 0 && !slices.ContainsFunc(t.IDs, func(id job.ID) bool { return !others(id) }) {
			return granted(t.IDs[0])
		}
	}
	return nil
}

// compareTenant checks that the lists of a tenant have all of its jobs and queues and no others, and count no others.
func (b *reference) compareTenant(q *query.Queries, t *tenant) error {
	scope := &t.key.Scope
	want := map[job.ID]*model.Job{}
	pending := map[string]int64{}
	for _, j := range b.m.AllJobs(func(j *model.Job) bool { return j.Status != job.Purged }) {
		if in, err := q.JobInScope(scope, j.ID); err != nil || in != scope.Has(j.Queue.Name.Client, j.Queue.Name.Name) {
			return fmt.Errorf("job %v of %+v is in the scope of %s: %v, %w", j.ID, j.Queue.Name, t.key.Name, in, err)
		}
		if scope.Has(j.Queue.Name.Client, j.Queue.Name.Name) {
			want[j.ID] = j
			if j.Status == job.Pending {
				pending[j.Queue.Name.Name]++
			}
		}
	}
	n := 0
	for f := (query.Filter{Scope: *scope, Limit: 50, Parts: query.Details}); ; {
		docs, next, err := q.List(f)
		if err != nil {
			return fmt.Errorf("list of %s: %w", t.key.Name, err)
		}
		for i := range docs {
			if want[docs[i].ID] == nil {
				return fmt.Errorf("the list of %s has job %v of %s/%s", t.key.Name, docs[i].ID, docs[i].Client, docs[i].Type)
			}
			n++
		}
		if f.After = next; next.IsZero() {
			break
		}
	}
	if n != len(want) {
		return fmt.Errorf("the list of %s has %d jobs, not %d", t.key.Name, n, len(want))
	}
	queues, _, err := q.Queues(scope, "", "", "", 1000)
	if err != nil {
		return fmt.Errorf("queues of %s: %w", t.key.Name, err)
	}
	for i := range queues {
		if !scope.Has(queues[i].Client, queues[i].Type) {
			return fmt.Errorf("the queues of %s have %s/%s", t.key.Name, queues[i].Client, queues[i].Type)
		}
	}
	types, _, err := q.WaitingTypes(scope, "", "", 1000)
	if err != nil {
		return fmt.Errorf("waiting types of %s: %w", t.key.Name, err)
	}
	for _, of := range types {
		if of.Waiting > pending[of.Type] {
			return fmt.Errorf("%d jobs of type %s wait for %s, which has %d", of.Waiting, of.Type, t.key.Name, pending[of.Type])
		}
	}
	b.w.account.figures.TenantLists++
	return nil
}
