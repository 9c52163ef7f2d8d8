package store

import (
	"cmp"
	"math"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/row"
)

// applyClaim hands out jobs one by one, in the order of the strategy.
func (m *model) applyClaim(cmd job.Claim) applied.Result {
	before, refusal := m.past(&cmd.Once)
	switch {
	case refusal != job.Granted:
		return &applied.Claimed{Refusal: refusal}
	case before != nil && before.made != nil:
		return &applied.Claimed{Refusal: job.KeyReused}
	case before != nil && before.claim != nil:
		again := &applied.Claimed{Claim: before.claim.id, Seq: before.claim.seq, Replayed: true}
		if c := m.Known(before.claim.id); c != nil {
			again.LeaseMs, again.Runs = m.leaseOf(c), runsOf(c.handed)
		}
		return again
	}
	if m.stopped {
		return &applied.Claimed{}
	}
	c := &modelClaim{id: job.NewID(m.at, m.seq, 0), seq: m.seq, runner: cmd.Runner, lease: cmd.LeaseMs}
	t := modelTaking{m: m, cmd: &cmd, c: c}
	switch cmd.Strategy {
	case job.Oldest:
		for t.Take(first(m.line(cmd.Clients, cmd.Types, false))) {
		}
	case job.Newest:
		for t.Take(first(newest(m.line(cmd.Clients, cmd.Types, false)))) {
		}
	case job.Random:
		t.Draw()
	case job.Fair:
		t.serve()
	default:
		t.spread()
	}
	if len(c.handed) == 0 {
		return &applied.Claimed{}
	}
	m.claims[c.id] = c
	if cmd.Announced {
		c.beginFirst(cmd.Begins)
	}
	if m.runners[c.runner] == nil {
		m.runners[c.runner] = &modelRunner{}
	}
	next := modelOnce{claim: c}
	if before != nil {
		next.ended = before.ended
	}
	m.keepOnce(&cmd.Once, next)
	return &applied.Claimed{Claim: c.id, Seq: c.seq, LeaseMs: c.lease, Runs: runsOf(c.handed)}
}

// beginFirst records that only the first n runs of a claim have begun.
func (c *modelClaim) beginFirst(n int) {
	c.begins, c.begun = n, map[*modelJob]bool{}
	for _, j := range c.handed[:min(n, len(c.handed))] {
		c.begun[j] = true
	}
}

// runsOf returns jobs as runs. Consecutive jobs with neighbouring ids are one run.
func runsOf(jobs []*modelJob) (runs []row.Run) {
	for _, j := range jobs {
		run := row.Run{j.batch.seq, uint32(j.id.Line()), uint32(j.id.Line())}
		if last := len(runs) - 1; last >= 0 && runs[last].Batch == run.Batch && runs[last].Last+1 == run.First {
			runs[last].Last++
		} else {
			runs = append(runs, run)
		}
	}
	return runs
}

// leaseOf returns the lease of the last tickle of the whole claim.
func (m *model) leaseOf(c *modelClaim) int64 { return c.lease }

func first(line []*modelJob) *modelJob {
	if len(line) == 0 {
		return nil
	}
	return line[0]
}

// newest sorts a line for Newest: by priority; then fresh jobs, the last to become pending first; then returned jobs.
func newest(line []*modelJob) []*modelJob {
	slices.SortFunc(line, func(a, b *modelJob) int {
		if c := cmp.Compare(b.attr.Priority, a.attr.Priority); c != 0 {
			return c
		}
		if a.cameBack != b.cameBack {
			return map[bool]int{true: 1, false: -1}[a.cameBack]
		}
		if !a.cameBack && a.order != b.order {
			return cmp.Compare(b.order, a.order)
		}
		return cmp.Or(cmp.Compare(b.batch.seq, a.batch.seq), cmp.Compare(b.id.Line(), a.id.Line()))
	})
	return line
}

// modelTaking is a claim while it takes jobs.
type modelTaking struct {
	m     *model
	cmd   *job.Claim
	c     *modelClaim
	bytes int64
}

// Take hands out a job. If the time by which the job had to start has passed, take ends the job together with all jobs
// of its span. It reports whether the claim continues.
func (t *modelTaking) Take(j *modelJob) bool {
	if j == nil {
		return false
	}
	m, c := t.m, t.c
	if x := j.expiry(); !(x != 0 && x <= m.at) && j.batch.submission.Ended() {
		for _, j := range m.alike(j) {
			m.endRest(j)
		}
		return true
	}
	if x := j.expiry(); x != 0 && x <= m.at {
		for _, j := range m.alike(j) {
			m.expire(j)
		}
		return true
	}
	if c.lease == 0 {
		c.lease = j.attr.LeaseMs
	}
	bytes := t.bytes + int64(len(j.payload))
	if len(c.handed) > 0 && (bytes > t.cmd.MaxBytes || t.cmd.LeaseMs == 0 && j.attr.LeaseMs != c.lease) {
		return false
	}
	t.bytes = bytes
	c.handed = append(c.handed, j)
	m.tally(j).countClaimed(m.at - j.movedAt)
	m.start(c, j)
	return len(c.handed) < t.cmd.Max
}

// start begins a run of a job under a claim.
func (m *model) start(c *modelClaim, j *modelJob) {
	j.status, j.claim, j.movedAt, j.code, j.exitCode, j.timeout = job.Active, c, m.at, job.NoCode, 0, 0
	if j.attr.TimeoutMs > 0 {
		j.timeout = m.at + j.attr.TimeoutMs
	}
	j.attempts++
	j.tickle = modelTickle{m.seq, m.at, c.lease}
}

// alike returns the consecutive lines around a pending job that equal it in everything but their payloads.
func (m *model) alike(j *modelJob) []*modelJob {
	lines := j.batch.lines
	same := func(k *modelJob) bool {
		return k.group == j.group && k.status == j.status && k.cameBack == j.cameBack && (k.order == j.order || j.cameBack || j.status == job.Deferred) &&
			k.runAt == j.runAt && k.code == j.code && k.exitCode == j.exitCode && k.attempts == j.attempts && k.movedAt == j.movedAt && k.claim == j.claim &&
			k.attr.Priority == j.attr.Priority && k.attr.MaxAttempts == j.attr.MaxAttempts && k.redrives == j.redrives
	}
	from, to := j.id.Line(), j.id.Line()
	for from > 0 && same(lines[from-1]) {
		from--
	}
	for to+1 < len(lines) && same(lines[to+1]) {
		to++
	}
	return slices.Clone(lines[from : to+1])
}

// highest returns the jobs of a line that have the highest priority.
func highest(line []*modelJob) []*modelJob {
	for i, j := range line {
		if j.attr.Priority != line[0].attr.Priority {
			return line[:i]
		}
	}
	return line
}

// Draw takes a random job and the jobs after it in its lane, and repeats this.
func (t *modelTaking) Draw() {
	m := t.m
	for draw := uint64(0); ; draw++ {
		line := highest(m.line(t.cmd.Clients, t.cmd.Types, false))
		if len(line) == 0 {
			return
		}
		var all []*modelJob
		for _, q := range m.drawn(t.cmd.Clients, t.cmd.Types) {
			for _, j := range line { // jobs that were returned are first
				if j.queue == q {
					all = append(all, j)
				}
			}
		}
		drawn := all[job.RandomOf(m.seed, m.seq, draw, math.MaxUint32)%uint64(len(all))]
		lane := func() (lane []*modelJob) {
			for _, j := range m.line([]string{drawn.attr.Client}, []string{drawn.attr.Type}, false) {
				if j.attr.Priority == line[0].attr.Priority && j.cameBack == drawn.cameBack {
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
			if x := next.expiry(); x != 0 && x <= m.at || next.batch.submission.Ended() { // the jobs around it are ended as well
				place = slices.Index(rest, m.alike(next)[0])
			}
			if !t.Take(next) {
				return
			}
		}
	}
}

// drawn returns the queues in the order in which a draw counts them.
func (m *model) drawn(clients, types []string) (queues []*modelQueue) {
	sorted := func(names []string) []string {
		names = slices.Clone(names)
		slices.Sort(names)
		return slices.Compact(names)
	}
	of := func(match func(q *modelQueue) bool) {
		start := len(queues)
		for _, q := range m.order {
			if match(q) {
				queues = append(queues, q)
			}
		}
		slices.SortFunc(queues[start:], func(a, b *modelQueue) int {
			return cmp.Or(cmp.Compare(a.name.Client, b.name.Client), cmp.Compare(a.name.Typ, b.name.Typ))
		})
	}
	switch {
	case len(clients) == 0 && len(types) == 0:
		of(func(*modelQueue) bool { return true })
	case len(types) == 0:
		for _, name := range sorted(clients) {
			of(func(q *modelQueue) bool { return q.name.Client == name })
		}
	case len(clients) == 0:
		for _, name := range sorted(types) {
			of(func(q *modelQueue) bool { return q.name.Typ == name })
		}
	default:
		for _, client := range sorted(clients) {
			for _, typ := range sorted(types) {
				of(func(q *modelQueue) bool { return q.name == row.QueueName{client, typ} })
			}
		}
	}
	return queues
}

// serve serves clients in turn, several rounds at a time.
func (t *modelTaking) serve() {
	m := t.m
	for left := t.cmd.Max; left > 0; left = t.cmd.Max - len(t.c.handed) {
		line := highest(m.line(t.cmd.Clients, t.cmd.Types, false))
		if len(line) == 0 {
			return
		}
		var names []string
		for _, j := range line {
			names = append(names, j.attr.Client)
		}
		slices.Sort(names)
		names = slices.Compact(names)
		slices.SortStableFunc(names, func(a, b string) int { // clients up to the one served last go to the end
			return map[bool]int{true: 1}[a <= m.served] - map[bool]int{true: 1}[b <= m.served]
		})
		names = names[:min(left, len(names))]
		turns := left / len(names)
		priority := line[0].attr.Priority
		for _, name := range names {
			for had := len(t.c.handed); len(t.c.handed)-had < turns; {
				own := highest(m.line([]string{name}, t.cmd.Types, false))
				if len(own) == 0 || own[0].attr.Priority != priority {
					break
				}
				before := len(t.c.handed)
				more := t.Take(own[0])
				if len(t.c.handed) > before {
					m.served = name
				}
				if !more {
					return
				}
			}
		}
	}
}
