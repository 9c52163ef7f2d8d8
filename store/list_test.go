package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/proof/model"
	"github.com/daybookq/daybook/proof/model/compare"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/query"
)

// TestListRandom applies random commands to a store and to the model. It compares lists with a plain walk over the
// model's documents.
func TestListRandom(t *testing.T) {
	seeds := seedsOr(*seedsFlag, 60, 30)
	first := uint64(1)
	if *seedFlag != 0 {
		first, seeds = *seedFlag, *seedFlag
	}
	for seed := first; seed <= seeds; seed++ {
		testkit.NoError(t, listSeed(seed), "seed", seed)
	}
}

func listSeed(seed uint64) (err error) {
	g := newGenerator(seed)
	steps := g.steps()
	g.options.FS = vfs.NewMem()
	p := &player{options: g.options, replay: newReplay()}
	if p.s, err = Open("store", p.options); err != nil {
		return err
	}
	p.m = newModel(p.s)
	defer func() { err = errors.Join(err, p.s.Close()) }()
	for i, st := range steps {
		if err := p.step(st); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		if i != len(steps)-1 && !g.some(12) {
			continue
		}
		if err := p.commit(); err != nil {
			return err
		}
		for range 20 {
			f := g.filter(p.m)
			if err := p.compareList(f, g); err != nil {
				return fmt.Errorf("after step %d: list %+v: %w", i, f, err)
			}
		}
		if err := errors.Join(p.compareClaims(), p.compareRunners(g), p.compareWaiting(g)); err != nil {
			return fmt.Errorf("after step %d: %w", i, err)
		}
	}
	return p.check()
}

// filter makes a random filter with names, times and ids of existing or former jobs.
func (g *generator) filter(m *model.Model) (f query.Filter) {
	f.Limit, f.Parts = oneOf(g, 1, 2, 5, 1000), query.Everything
	f.Rows, f.Read, f.Bytes = oneOf(g, 0, 1, 2, 7, 50), oneOf(g, 0, 1, 600, 3000), oneOf[int64](g, 0, 1, 10, 60)
	if g.some(50) {
		f.Status = oneOf(g, job.Statuses...)
	}
	if g.some(30) {
		f.Client = oneOf(g, "a", "b", "c")
	}
	if g.some(30) {
		f.Type = oneOf(g, "x", "y", "z")
	}
	if g.some(15) {
		f.Runner = g.anyRunner()
	}
	if g.some(15) {
		f.Claim = g.anyClaim()
	}
	if g.some(15) && len(m.Batches) > 0 {
		f.Batch = m.Document(m.Batches[g.IntN(len(m.Batches))].Lines[0]).Batch
	}
	if g.some(15) {
		f.Meta = oneOf(g, map[string]string{"a": "1"}, map[string]string{"b": "x y", "a": "1"}, map[string]string{"a": "2"})
	}
	anyTime := func() int64 {
		if len(m.Batches) == 0 {
			return startAt
		}
		return m.Batches[g.IntN(len(m.Batches))].At + g.Int64N(3) - 1
	}
	if g.some(15) {
		f.CreatedAfter = anyTime()
	}
	if g.some(15) {
		f.CreatedBefore = anyTime()
	}
	f.Order, f.Sorted = oneOf(g, query.Oldest, query.Newest, query.Updated), oneOf(g, 0, 1)
	if g.some(15) {
		f.UpdatedAfter = anyTime()
	}
	if g.some(15) {
		f.UpdatedBefore = anyTime()
	}
	if g.some(15) && len(m.Batches) > 0 {
		after := m.Batches[g.IntN(len(m.Batches))].ID.WithLine(g.IntN(6))
		if f.After.ID = after; f.Order == query.Updated { // perhaps with another time
			f.After.UpdatedAt = oneOf(g, after.At(), anyTime())
			if j := m.Jobs[after]; j != nil && j.Status != job.Purged {
				f.After.UpdatedAt = oneOf(g, m.Document(j).UpdatedAt, anyTime())
			}
		} else if g.some(40) { // perhaps of no batch
			f.After.ID = job.NewID(after.At()+g.Int64N(3)-1, uint64(max(1, int(after.LowSeq())+g.IntN(5)-2)), after.Line())
		}
	}
	return f
}

// matches follows the meaning of a list's parameters in docs/reference/api.md.
func filterMatches(f *query.Filter, doc *job.Job) bool {
	for key, want := range f.Meta {
		if value, ok := doc.Meta.Get(key); !ok || value != want {
			return false
		}
	}
	return (f.Status == 0 || doc.Status == f.Status) && (f.Client == "" || doc.Client == f.Client) && (f.Type == "" || doc.Type == f.Type) &&
		(f.Runner == "" || doc.Runner == f.Runner) && (f.Claim.IsZero() || doc.Claim == f.Claim) &&
		(f.Batch.IsZero() || doc.Batch == f.Batch) && doc.CreatedAt >= f.CreatedAfter && (f.CreatedBefore == 0 || doc.CreatedAt < f.CreatedBefore) &&
		doc.UpdatedAt >= f.UpdatedAfter && (f.UpdatedBefore == 0 || doc.UpdatedAt < f.UpdatedBefore) && (f.After.IsZero() || comparePlaces(f.Order, placeOf(f.Order, doc), f.After) > 0)
}

// placeOf is the place of a job in a list.
func placeOf(o query.Order, doc *job.Job) query.JobPlace {
	if o == query.Updated {
		return query.JobPlace{ID: doc.ID, UpdatedAt: doc.UpdatedAt}
	}
	return query.JobPlace{ID: doc.ID}
}

// comparePlaces returns a negative number if a comes before b in a list.
func comparePlaces(o query.Order, a, b query.JobPlace) int {
	n := cmp.Or(cmp.Compare(a.UpdatedAt, b.UpdatedAt), compareIDs(a.ID, b.ID))
	if o != query.Oldest {
		return -n
	}
	return n
}

// compareIDs compares ids by the order in which their commands were applied. That is the order of their bytes, except
// when the low bits of the seq begin again at 0 within a millisecond.
func compareIDs(a, b job.ID) int {
	if a.At() == b.At() && a.LowSeq().Late() != b.LowSeq().Late() {
		return map[bool]int{true: -1, false: 1}[a.LowSeq().Late()]
	}
	return slices.Compare(a[:], b[:])
}

func (p *player) compareList(f query.Filter, r interface{ IntN(int) int }) error {
	var want []job.Job
	for _, b := range p.m.Batches {
		for _, j := range b.Lines {
			if j.Status == job.Purged || !f.Batch.IsZero() && j.Batch.Submission != nil && j.Batch.Submission.Deleting {
				continue // a batch that is being deleted counts as deleted
			}
			if doc := p.m.Document(j); filterMatches(&f, &doc) {
				want = append(want, doc)
			}
		}
	}
	slices.SortFunc(want, func(a, b job.Job) int { return comparePlaces(f.Order, placeOf(f.Order, &a), placeOf(f.Order, &b)) })
	for pages := 0; ; pages++ {
		docs, next, err := p.s.List(f)
		if err != nil {
			return err
		}
		if len(docs) > f.Limit {
			return fmt.Errorf("page %d has %d documents", pages, len(docs))
		}
		bytes := int64(0)
		for i := range docs {
			if len(want) == 0 {
				return fmt.Errorf("page %d has %v, which the model does not have", pages, docs[i].ID)
			}
			if err := compare.Job(docs[i], want[0]); err != nil {
				return fmt.Errorf("page %d, job %v (%v): %w", pages, docs[i].ID, want[0].ID, err)
			}
			bytes += int64(len(docs[i].Payload) + len(docs[i].Output))
			if f.Bytes != 0 && i > 0 && bytes > f.Bytes {
				return fmt.Errorf("page %d has %d bytes", pages, bytes)
			}
			want = want[1:]
		}
		if next.IsZero() {
			break
		}
		if !f.After.IsZero() && comparePlaces(f.Order, next, f.After) <= 0 || len(docs) > 0 && comparePlaces(f.Order, next, placeOf(f.Order, &docs[len(docs)-1])) < 0 {
			return fmt.Errorf("page %d goes on after %v, and began after %v", pages, next, f.After)
		}
		if f.Rows == 0 && f.Read == 0 && f.Bytes == 0 && len(docs) < f.Limit {
			return fmt.Errorf("page %d ends early, with %d documents", pages, len(docs))
		}
		f.After = next
		f.Limit = 1 + r.IntN(2*f.Limit)
	}
	if len(want) > 0 {
		return fmt.Errorf("the list ends before %v", want[0].ID)
	}
	return nil
}

func (p *player) compareClaims() error {
	for _, c := range p.m.Claims {
		doc, jobs, err := p.s.ClaimDocument(c.ID, query.Everything)
		if p.m.Known(c.ID) == nil {
			if !errors.Is(err, job.ClaimNotFound) {
				return fmt.Errorf("claim %v exists, although no job names it: %v", c.ID, err)
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("claim %v: %w", c.ID, err)
		}
		held := c.Held()
		if doc.ID != c.ID || doc.Runner != c.Runner || doc.CreatedAt != c.ID.At() || doc.HandedOut != len(c.Handed) || doc.Held != len(held) || len(jobs) != len(held) ||
			(doc.DeadlineAt != 0) != (len(held) > 0) {
			return fmt.Errorf("claim %+v with %d jobs, the model has %+v, which holds %d", doc, len(jobs), c, len(held))
		}
		for i, j := range held {
			if err := compare.Job(jobs[i], compare.Brief(p.m.Document(j))); err != nil {
				return fmt.Errorf("job %v of claim %v: %w", j, c.ID, err)
			}
		}
		// A job without its own lease or a time-out has the claim's deadline.
		if len(held) == 1 && held[0].Attr.TimeoutMs == 0 && p.m.Deadline(held[0]) != doc.DeadlineAt && len(c.Handed) == 1 {
			return fmt.Errorf("claim %v ends at %d, its job at %d", c.ID, doc.DeadlineAt, p.m.Deadline(held[0]))
		}
		if doc, jobs, err := p.s.ClaimDocument(job.NewID(c.ID.At()+1, c.Seq, 0), 0); !errors.Is(err, job.ClaimNotFound) {
			return fmt.Errorf("a claim of another time: %+v, %v, %v", doc, jobs, err)
		}
	}
	return nil
}

func (p *player) compareRunners(g *generator) error {
	type held struct {
		claims, jobs int
		seen         int64
	}
	want := map[string]*held{}
	for _, c := range p.m.Claims {
		jobs := c.Held()
		if len(jobs) == 0 {
			continue
		}
		h := want[c.Runner]
		if h == nil {
			h = &held{seen: p.m.Runners[c.Runner].At}
			want[c.Runner] = h
		}
		h.claims++
		h.jobs += len(jobs)
		for _, j := range jobs {
			h.seen = max(h.seen, j.Tickle.At)
		}
	}
	after := ""
	for limit := 1 + g.IntN(3); ; {
		list, more, err := p.s.Runners(after, limit)
		if err != nil {
			return err
		}
		for _, r := range list {
			h := want[r.Name]
			if h == nil || h.claims != r.Claims || h.jobs != r.Held || len(r.Open) != min(r.Claims, query.MaxOpenClaims) || r.LastSeenAt < h.seen {
				return fmt.Errorf("runner %+v, the model has %+v", r, h)
			}
			jobs := 0
			for i, c := range r.Open {
				if c.Runner != r.Name || c.Held == 0 || c.DeadlineAt == 0 || i > 0 && c.CreatedAt > r.Open[i-1].CreatedAt {
					return fmt.Errorf("runner %q has the claim %+v", r.Name, c)
				}
				jobs += c.Held
			}
			if len(r.Open) == r.Claims && jobs != r.Held {
				return fmt.Errorf("claims of runner %+v hold %d", r, jobs)
			}
			delete(want, r.Name)
			after = r.Name
		}
		if !more {
			break
		}
		if len(list) != limit {
			return fmt.Errorf("a page of %d runners has %d, and more follow", limit, len(list))
		}
	}
	if len(want) > 0 {
		return fmt.Errorf("runners end before %v", want)
	}
	return nil
}

func (p *player) compareWaiting(g *generator) error {
	client := oneOf(g, "", "", "a", "b", "c")
	var names []string
	if client != "" {
		names = []string{client}
	}
	want := map[string]int64{}
	for _, j := range p.m.Line(names, nil, false) {
		want[j.Attr.Type]++
	}
	after := ""
	for {
		types, more, err := p.s.WaitingTypes(&job.Scope{}, client, after, 1)
		if err != nil {
			return err
		}
		for _, w := range types {
			if w.Type <= after || want[w.Type] != w.Waiting {
				return fmt.Errorf("after %q the waiting types of client %q are %+v, the model has %v", after, client, w, want)
			}
			delete(want, w.Type)
			after = w.Type
		}
		if !more {
			break
		}
	}
	if len(want) > 0 {
		return fmt.Errorf("client %q also has the waiting type %v", client, want)
	}
	return nil
}

func mustList(t testing.TB, s *Store, f query.Filter) (docs []job.Job, next query.JobPlace) {
	t.Helper()
	docs, next = testkit.Must2(s.List(f))(t)
	return docs, next
}

// TestListPlans: a list finds the jobs that a filter allows without reading the jobs that it excludes.
func TestListPlans(t *testing.T) {
	s := mustOpen(t, Options{})
	seq := uint64(1)
	for ; seq <= 300; seq++ {
		c := plainCreate("a", fmt.Sprintf("x%d", seq%3), 2, 1)
		if seq == 290 {
			c = plainCreate("b", "y", 5, 1)
			c.Groups[0].Meta = "colour=red,size=4"
		}
		mustApply(t, s, seq, int64(seq), c)
	}
	claimed := mustApply(t, s, seq, 400, job.Claim{Runner: "r", Clients: []string{"b"}, Max: 3, MaxBytes: job.MaxClaimBytes}).(*applied.Claimed)
	mustStore(t, s, seq+1, 401, job.Complete{Outcomes: []job.Outcome{{ID: jobID(290, 290, 1), Code: job.OK, ExitCode: 200, DelayMs: -1}}})
	for name, c := range map[string]struct {
		f    query.Filter
		rows int // how many rows are enough
		want int
	}{
		"client, type and status": {query.Filter{Client: "b", Type: "y", Status: job.Pending}, 3, 2},
		"client":                  {query.Filter{Client: "b"}, 10, 5},
		"status":                  {query.Filter{Status: job.Completed}, 3, 1},
		"claim":                   {query.Filter{Claim: claimed.Claim}, 6, 3},
		"runner's active":         {query.Filter{Runner: "r", Status: job.Active}, 8, 2},
		"created":                 {query.Filter{CreatedAfter: startAt + 290, CreatedBefore: startAt + 291}, 8, 5},
		"meta":                    {query.Filter{Client: "b", Meta: map[string]string{"size": "4", "colour": "red"}}, 10, 5},
		"another meta":            {query.Filter{Client: "b", Meta: map[string]string{"size": "4", "colour": "blue"}}, 10, 0},
		"more meta":               {query.Filter{Client: "b", Meta: map[string]string{"size": "4", "shape": ""}}, 10, 0},
		"no such queue":           {query.Filter{Client: "b", Type: "z"}, 1, 0},
		"no such claim":           {query.Filter{Claim: jobID(5, 5, 0)}, 1, 0},
		"nothing so late":         {query.Filter{CreatedAfter: startAt + 301}, 1, 0},
	} {
		c.f.Limit, c.f.Rows = 100, c.rows
		docs, next := mustList(t, s, c.f)
		testkit.Holds(t, len(docs) == c.want && next.IsZero(), name, len(docs), "jobs, next", next)
	}
}

// TestListOfManyQueues: a list by time is refused only if it has more queues itself than it may look into.
func TestListOfManyQueues(t *testing.T) {
	s := mustOpen(t, Options{})
	seq := uint64(0)
	for i := range 1001 {
		seq++
		mustApply(t, s, seq, int64(seq), plainCreate("a", fmt.Sprintf("x%d", i), 1, 1))
	}
	seq++
	mustStore(t, s, seq, int64(seq), plainCreate("b", "x5", 1, 1))
	for name, c := range map[string]struct {
		f    query.Filter
		want int
	}{
		"a type":          {query.Filter{Type: "x5"}, 2},
		"a client":        {query.Filter{Client: "b"}, 1},
		"types of a key":  {query.Filter{Scope: job.Scope{Types: []string{"x5", "x7"}}}, 3},
		"some of a key":   {query.Filter{Client: "a", Scope: job.Scope{Clients: []string{"a"}, Types: []string{"x5"}}}, 1},
		"client of a key": {query.Filter{Scope: job.Scope{Clients: []string{"b"}}}, 1},
	} {
		c.f.Order, c.f.Limit = query.Updated, 10
		docs, next := mustList(t, s, c.f)
		testkit.Holds(t, len(docs) == c.want && next.IsZero(), name, len(docs), "jobs, next", next)
	}
	for _, f := range []query.Filter{{}, {Client: "a"}} {
		f.Order, f.Limit = query.Updated, 10
		testkit.Fails2(s.List(f))(t, query.ErrManyQueues)
	}
}

// TestListPageBounds: a page ends at its limit, at its bytes and at its rows, and says where the next page begins.
func TestListPageBounds(t *testing.T) {
	s := mustOpen(t, Options{})
	mustApply(t, s, 1, 0, plainCreate("a", "x", 10, 100))
	mustApply(t, s, 2, 1, plainClaim("r", 10))
	outcomes := job.Complete{}
	for line := range 10 {
		outcomes.Outcomes = append(outcomes.Outcomes, job.Outcome{ID: jobID(0, 1, line), Code: job.OK, ExitCode: 200, DelayMs: -1,
			Result: job.Result{OutputKind: job.Bytes, Output: make([]byte, 1000)}})
	}
	mustStore(t, s, 3, 2, outcomes)
	page := func(f query.Filter) string {
		docs, next := mustList(t, s, f)
		if len(docs) > 0 && docs[0].Payload == nil != (f.Parts&query.Payloads == 0) || len(docs) > 0 && docs[0].Output == nil != (f.Parts&query.Details == 0) {
			t.Errorf("parts %b: %+v", f.Parts, docs[0])
		}
		if next.IsZero() {
			return fmt.Sprint(len(docs), " end")
		}
		return fmt.Sprint(len(docs), " ", next.ID.Line())
	}
	for name, c := range map[string]struct {
		f    query.Filter
		want string
	}{
		"limit":                       {query.Filter{Limit: 9}, "9 8"},
		"exactly the limit":           {query.Filter{Limit: 10}, "10 end"},
		"one of the limit":            {query.Filter{Limit: 1, After: query.JobPlace{ID: jobID(0, 1, 8)}}, "1 end"},
		"payloads":                    {query.Filter{Limit: 20, Parts: query.Payloads, Bytes: 300}, "3 2"},
		"a byte less":                 {query.Filter{Limit: 20, Parts: query.Payloads, Bytes: 299}, "2 1"},
		"a document in any case":      {query.Filter{Limit: 20, Parts: query.Payloads, Bytes: 1}, "1 0"},
		"details count, too":          {query.Filter{Limit: 20, Parts: query.Everything, Bytes: 2500}, "2 1"},
		"details alone":               {query.Filter{Limit: 20, Parts: query.Details, Bytes: 2500}, "2 1"},
		"nothing that is counted":     {query.Filter{Limit: 20, Bytes: 1}, "10 end"},
		"rows without a match":        {query.Filter{Limit: 20, Runner: "other", Rows: 1}, "0 9"},
		"and then the end":            {query.Filter{Limit: 20, Runner: "other", Rows: 1, After: query.JobPlace{ID: jobID(0, 1, 9)}}, "0 end"},
		"behind everything":           {query.Filter{Limit: 20, After: query.JobPlace{ID: jobID(5, 9, 0)}}, "0 end"},
		"at the last line of all ids": {query.Filter{Limit: 20, After: query.JobPlace{ID: jobID(0, 1, job.MaxLines-1)}}, "0 end"},
	} {
		testkit.Equal(t, page(c.f), c.want, name)
	}
}

// TestRunnersOfManyClaims: a runner shows at most its newest hundred claims.
func TestRunnersOfManyClaims(t *testing.T) {
	s := mustOpen(t, Options{})
	mustApply(t, s, 1, 0, plainCreate("a", "x", 400, 1))
	seq := uint64(2)
	for range query.MaxOpenClaims {
		mustApply(t, s, seq, int64(seq), plainClaim("full", 1))
		mustApply(t, s, seq+1, int64(seq), plainClaim("over", 1))
		seq += 2
	}
	mustApply(t, s, seq, int64(seq), plainClaim("over", 2))
	mustStore(t, s, seq+1, 900, job.Tickle{IDs: []job.ID{jobID(0, 1, 2*query.MaxOpenClaims)}, Progress: -1})
	list, more := testkit.Must2(s.Runners("", 10))(t)
	testkit.MustHold(t, !more && len(list) == 2, len(list), "runners", more)
	full, over := list[0], list[1]
	if len(full.Open) != query.MaxOpenClaims || full.Claims != query.MaxOpenClaims || full.LastSeenAt != startAt+2*query.MaxOpenClaims {
		t.Errorf("%q: %d of %d claims, last seen %d", full.Name, len(full.Open), full.Claims, full.LastSeenAt-startAt)
	}
	if len(over.Open) != query.MaxOpenClaims || over.Claims != query.MaxOpenClaims+1 || over.Held != query.MaxOpenClaims+2 || over.Open[0].Held != 2 || over.LastSeenAt != startAt+900 {
		t.Errorf("%q: %d of %d claims, %d held, last seen %d", over.Name, len(over.Open), over.Claims, over.Held, over.LastSeenAt-startAt)
	}
	got, _ := mustList(t, s, query.Filter{Runner: "over", Status: job.Active, Limit: 1000})
	testkit.Equal(t, len(got), query.MaxOpenClaims+2, "active jobs of a runner")
	_, more, _ = s.Runners("", 1)
	testkit.Holds(t, more, "no more after the first of two")
}
