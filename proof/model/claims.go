package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// applyClaim hands out jobs one by one, in the order of the strategy.
func (m *Model) applyClaim(cmd job.Claim) applied.Result {
	before, refusal := m.past(&cmd.Once)
	switch {
	case refusal != job.Granted:
		return &applied.Claimed{Refusal: refusal}
	case before != nil && before.made != nil:
		return &applied.Claimed{Refusal: job.KeyReused}
	case before != nil && before.claim != nil:
		again := &applied.Claimed{Claim: before.claim.ID, Seq: before.claim.Seq, Replayed: true}
		if c := m.Known(before.claim.ID); c != nil {
			again.LeaseMs, again.Runs = c.lease, Runs(c.Handed)
		}
		return again
	}
	if m.Stopped {
		return &applied.Claimed{}
	}
	c := &Claim{ID: job.NewID(m.At, m.Seq, 0), Seq: m.Seq, Runner: cmd.Runner, lease: cmd.LeaseMs}
	t := taking{m: m, cmd: &cmd, c: c, most: cmd.Max}
	if m.took != nil {
		t.follow(m.took)
	} else {
		t.takeAll()
	}
	if len(c.Handed) == 0 {
		return &applied.Claimed{}
	}
	m.Claims[c.ID] = c
	if cmd.Announced {
		c.beginFirst(cmd.Begins)
	}
	if m.Runners[c.Runner] == nil {
		m.Runners[c.Runner] = &runner{}
	}
	next := once{claim: c}
	if before != nil {
		next.ended = before.ended
	}
	m.keepOnce(&cmd.Once, next)
	return &applied.Claimed{Claim: c.ID, Seq: c.Seq, LeaseMs: c.lease, Runs: Runs(c.Handed)}
}

// takeAll takes jobs until the claim has enough.
func (t *taking) takeAll() {
	switch m, cmd := t.m, t.cmd; cmd.Strategy {
	case job.Oldest:
		for t.take(first(m.Line(cmd.Clients, cmd.Types, false))) {
		}
	case job.Newest:
		for t.take(first(newest(m.Line(cmd.Clients, cmd.Types, false)))) {
		}
	case job.Random:
		t.draw()
	case job.Fair:
		t.serve()
	default:
		t.spread()
	}
}

// took has the jobs of a claim of a store that may take fewer jobs than it can.
type took struct {
	jobs  []job.ID // that it handed out, in their order
	moves []Move   // of all jobs
}

// follow takes as many jobs as the store took. By prefer_distinct it takes the same jobs, if the claim may take them.
func (t *taking) follow(did *took) {
	m := t.m
	if waits := m.Line(t.cmd.Clients, t.cmd.Types, false); len(did.moves) == 0 && len(waits) > 0 {
		panic(violation(fmt.Sprintf("the claim did nothing while %d jobs waited, such as %v", len(waits), waits[0])))
	}
	skip := func() { // jobs that the store met, and that it may not hand out any more
		for _, e := range did.moves {
			switch j := m.Jobs[e.ID]; {
			case j == nil || j.Status != job.Pending:
			case e.Why == job.ReasonExpired && j.expiry() != 0 && j.expiry() <= m.At:
				m.expire(j)
			case j.Batch.Submission.Ended() && m.restMoves(e):
				m.endRest(j)
			}
		}
	}
	switch t.most = len(did.jobs); {
	case t.most == 0:
	case len(t.cmd.Strategy.DistinctKeys()) == 0:
		t.takeAll()
	default:
		skip()
		for rest := slices.Clone(did.jobs); len(rest) > 0; { // the jobs of a span may have been taken from its end
			i := slices.IndexFunc(rest, func(id job.ID) bool { return t.mayTake(m.Jobs[id]) })
			if i < 0 {
				panic(violation(fmt.Sprintf("the claim took %v, %v, and may not take %v", did.jobs, t.cmd.Strategy, rest)))
			}
			j := m.Jobs[rest[i]]
			if t.take(j); t.cmd.Strategy.Base() == job.Fair {
				m.served = j.Attr.Client
			}
			rest = slices.Delete(rest, i, i+1)
		}
	}
	skip()
}

// mayTake reports whether prefer_distinct may take a job next: it has the highest priority, and is the first of its queue
// with its values.
func (t *taking) mayTake(j *Job) bool {
	if j == nil {
		return false
	}
	line := t.m.Line(t.cmd.Clients, t.cmd.Types, false)
	if t.cmd.Strategy.Base() == job.Newest {
		line = newest(line)
	}
	line = highest(line)
	at := slices.IndexFunc(line, func(k *Job) bool {
		return k.Queue == j.Queue && !slices.ContainsFunc(t.cmd.Strategy.DistinctKeys(), func(key string) bool {
			is, has := j.Attr.Meta.Get(key)
			other, hasOther := k.Attr.Meta.Get(key)
			return has != hasOther || is != other
		})
	})
	return at >= 0 && line[at] == j
}

// beginFirst records that only the first n runs of a claim have begun.
func (c *Claim) beginFirst(n int) {
	c.begins, c.begun = n, map[*Job]bool{}
	for _, j := range c.Handed[:min(n, len(c.Handed))] {
		c.begun[j] = true
	}
}

// Runs returns jobs as runs. Consecutive jobs with neighbouring ids are one run.
func Runs(jobs []*Job) (runs []applied.Run) {
	for _, j := range jobs {
		run := applied.Run{j.Batch.Seq, uint32(j.ID.Line()), uint32(j.ID.Line())}
		if last := len(runs) - 1; last >= 0 && runs[last].Batch == run.Batch && runs[last].Last+1 == run.First {
			runs[last].Last++
		} else {
			runs = append(runs, run)
		}
	}
	return runs
}

func first(line []*Job) *Job {
	if len(line) == 0 {
		return nil
	}
	return line[0]
}

// newest sorts a line for Newest: by priority; then fresh jobs, the last to become pending first; then returned jobs.
func newest(line []*Job) []*Job {
	slices.SortFunc(line, func(a, b *Job) int {
		if c := cmp.Compare(b.Attr.Priority, a.Attr.Priority); c != 0 {
			return c
		}
		if a.cameBack != b.cameBack {
			return map[bool]int{true: 1, false: -1}[a.cameBack]
		}
		if !a.cameBack && a.order != b.order {
			return cmp.Compare(b.order, a.order)
		}
		return cmp.Or(cmp.Compare(b.Batch.Seq, a.Batch.Seq), cmp.Compare(b.ID.Line(), a.ID.Line()))
	})
	return line
}

// taking is a claim while it takes jobs.
type taking struct {
	m     *Model
	cmd   *job.Claim
	c     *Claim
	most  int // how many jobs it takes
	bytes int64
}

// take hands out a job. If the time by which the job had to start has passed, take ends the job together with all jobs
// of its span. It reports whether the claim continues.
func (t *taking) take(j *Job) bool {
	if j == nil {
		return false
	}
	m, c := t.m, t.c
	if x := j.expiry(); !(x != 0 && x <= m.At) && j.Batch.Submission.Ended() {
		for _, j := range m.alike(j) {
			m.endRest(j)
		}
		return true
	}
	if x := j.expiry(); x != 0 && x <= m.At {
		for _, j := range m.alike(j) {
			m.expire(j)
		}
		return true
	}
	if c.lease == 0 {
		c.lease = j.Attr.LeaseMs
	}
	bytes := t.bytes + int64(len(j.payload))
	if len(c.Handed) > 0 && (bytes > t.cmd.MaxBytes || t.cmd.LeaseMs == 0 && j.Attr.LeaseMs != c.lease) {
		return false
	}
	t.bytes = bytes
	c.Handed = append(c.Handed, j)
	m.tally(j).countClaimed(m.At - j.movedAt)
	m.start(c, j)
	return len(c.Handed) < t.most
}

// start begins a run of a job under a claim.
func (m *Model) start(c *Claim, j *Job) {
	j.Status, j.claim, j.movedAt, j.code, j.exitCode, j.timeout = job.Active, c, m.At, job.NoCode, 0, 0
	if j.Attr.TimeoutMs > 0 {
		j.timeout = m.At + j.Attr.TimeoutMs
	}
	j.attempts++
	j.Tickle = tickle{m.Seq, m.At, c.lease}
}

// alike returns the consecutive lines around a pending job that equal it in everything but their payloads.
func (m *Model) alike(j *Job) []*Job {
	lines := j.Batch.Lines
	same := func(k *Job) bool {
		return k.group == j.group && k.Status == j.Status && k.cameBack == j.cameBack && (k.order == j.order || j.cameBack || j.Status == job.Deferred) &&
			k.runAt == j.runAt && k.code == j.code && k.exitCode == j.exitCode && k.attempts == j.attempts && k.movedAt == j.movedAt && k.claim == j.claim &&
			k.Attr.Priority == j.Attr.Priority && k.Attr.MaxAttempts == j.Attr.MaxAttempts && k.redrives == j.redrives
	}
	from, to := j.ID.Line(), j.ID.Line()
	for from > 0 && same(lines[from-1]) {
		from--
	}
	for to+1 < len(lines) && same(lines[to+1]) {
		to++
	}
	return slices.Clone(lines[from : to+1])
}

// highest returns the jobs of a line that have the highest priority.
func highest(line []*Job) []*Job {
	for i, j := range line {
		if j.Attr.Priority != line[0].Attr.Priority {
			return line[:i]
		}
	}
	return line
}

// draw takes a random job and the jobs after it in its lane, and repeats this.
func (t *taking) draw() {
	m := t.m
	for draw := uint64(0); ; draw++ {
		line := highest(m.Line(t.cmd.Clients, t.cmd.Types, false))
		if len(line) == 0 {
			return
		}
		var all []*Job
		for _, q := range m.drawn(t.cmd.Clients, t.cmd.Types) {
			for _, j := range line { // jobs that were returned are first
				if j.Queue == q {
					all = append(all, j)
				}
			}
		}
		drawn := all[job.RandomOf(m.seed, m.Seq, draw, math.MaxUint32)%uint64(len(all))]
		lane := func() (lane []*Job) {
			for _, j := range m.Line([]string{drawn.Attr.Client}, []string{drawn.Attr.Type}, false) {
				if j.Attr.Priority == line[0].Attr.Priority && j.cameBack == drawn.cameBack {
					lane = append(lane, j)
				}
			}
			return lane
		}
		place := slices.Index(lane(), drawn)
		back := drawn.cameBack
		for {
			drawn.cameBack = back
			rest := lane()
			if len(rest) == 0 {
				break
			}
			if place >= len(rest) {
				place = 0
			}
			next := rest[place]
			if x := next.expiry(); x != 0 && x <= m.At || next.Batch.Submission.Ended() { // the jobs around it are ended as well
				place = slices.Index(rest, m.alike(next)[0])
			}
			if !t.take(next) {
				return
			}
		}
	}
}

// drawn returns the queues in the order in which a draw counts them.
func (m *Model) drawn(clients, types []string) (queues []*Queue) {
	sorted := func(names []string) []string {
		names = slices.Clone(names)
		slices.Sort(names)
		return slices.Compact(names)
	}
	of := func(match func(q *Queue) bool) {
		start := len(queues)
		for _, q := range m.order {
			if match(q) {
				queues = append(queues, q)
			}
		}
		slices.SortFunc(queues[start:], func(a, b *Queue) int {
			return cmp.Or(cmp.Compare(a.Name.Client, b.Name.Client), cmp.Compare(a.Name.Name, b.Name.Name))
		})
	}
	switch {
	case len(clients) == 0 && len(types) == 0:
		of(func(*Queue) bool { return true })
	case len(types) == 0:
		for _, name := range sorted(clients) {
			of(func(q *Queue) bool { return q.Name.Client == name })
		}
	case len(clients) == 0:
		for _, name := range sorted(types) {
			of(func(q *Queue) bool { return q.Name.Name == name })
		}
	default:
		for _, client := range sorted(clients) {
			for _, typ := range sorted(types) {
				of(func(q *Queue) bool { return q.Name == Name{client, typ} })
			}
		}
	}
	return queues
}

// serve serves clients in turn, several rounds at a time.
func (t *taking) serve() {
	m := t.m
	for left := t.cmd.Max; left > 0; left = t.cmd.Max - len(t.c.Handed) {
		line := highest(m.Line(t.cmd.Clients, t.cmd.Types, false))
		if len(line) == 0 {
			return
		}
		var names []string
		for _, j := range line {
			names = append(names, j.Attr.Client)
		}
		slices.Sort(names)
		names = slices.Compact(names)
		slices.SortStableFunc(names, func(a, b string) int { // clients up to the one served last go to the end
			return map[bool]int{true: 1}[a <= m.served] - map[bool]int{true: 1}[b <= m.served]
		})
		names = names[:min(left, len(names))]
		turns := left / len(names)
		priority := line[0].Attr.Priority
		for _, name := range names {
			for had := len(t.c.Handed); len(t.c.Handed)-had < turns; {
				own := highest(m.Line([]string{name}, t.cmd.Types, false))
				if len(own) == 0 || own[0].Attr.Priority != priority {
					break
				}
				before := len(t.c.Handed)
				more := t.take(own[0])
				if len(t.c.Handed) > before {
					m.served = name
				}
				if !more {
					return
				}
			}
		}
	}
}
