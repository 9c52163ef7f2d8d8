package store

import (
	"github.com/cockroachdb/pebble/v2"

	"github.com/daybookq/daybook/job"
)

// Claim is the document of a claim. Times are unix ms. DeadlineAt is when what it holds counts as abandoned unless it is tickled, but
// for jobs that have a lease of their own or a time-out; 0 when it holds nothing.
type Claim struct {
	ID         job.ID
	Runner     string
	CreatedAt  int64
	LeaseMs    int64
	TickledAt  int64 // when it was made, or the last tickle that reached all it holds
	DeadlineAt int64
	HandedOut  int // jobs
	Held       int
}

func (c *claim) document(r *runner, graceAt int64) Claim {
	doc := Claim{
		ID: job.NewID(c.at, c.seq, 0), Runner: c.runner, CreatedAt: c.at, LeaseMs: c.lease.Ms, TickledAt: c.lease.At,
		HandedOut: c.lines(), Held: c.held,
	}
	if c.held > 0 {
		doc.TickledAt = max(doc.TickledAt, r.tickledAt)
		doc.DeadlineAt = c.lease.Deadline(&r.promise, graceAt)
	}
	return doc
}

// ClaimDocument returns the document of a claim and those of the jobs it holds, with as much of their histories as a claim shows;
// job.ClaimNotFound when no job names it (any more).
func (s *Store) ClaimDocument(id job.ID, parts Parts) (doc Claim, jobs []job.Job, err error) {
	defer catch(&err)
	v := s.view()
	defer v.discard()
	c := s.readClaimOf(v, id)
	if c == nil || c.refs == 0 {
		return Claim{}, nil, job.ClaimNotFound
	}
	doc = c.document(readRunner(v, c.runner), decodeMeta(v.get(metaKey)).graceAt)
	if c.held == 0 {
		return doc, nil, nil
	}
	if parts&Details != 0 {
		parts = parts&^Details | Brief
	}
	return doc, s.heldDocuments(v, c.seq, c.runs, parts), nil
}

// Runner is what a runner holds. Open are its newest claims that hold something, the newest first, maxOpenClaims at most.
type Runner struct {
	Name         string
	Claims, Held int
	Open         []Claim
	// LastSeenAt is the newest time at which it made one of the claims in Open or tickled: them, a job of theirs, or all it holds.
	LastSeenAt int64
}

const (
	// maxOpenClaims bounds the claims that are shown of one runner.
	maxOpenClaims = 100
	// maxRunnerRows bounds the claims and leases of single jobs that a page of runners looks at, but for its last runner.
	maxRunnerRows = 10_000
)

// Runners returns up to limit runners that hold something, in order of the lengths of their names and then of the names, after the one
// given, and whether more follow. A page with very many claims ends before its limit.
func (s *Store) Runners(afterName string, limit int) (list []Runner, more bool, err error) {
	defer catch(&err)
	v := s.view()
	defer v.close()
	from := string(runnerTable)
	if afterName != "" {
		from = runnerKey(runnerTable, afterName) + "\x00"
	}
	var found []*runner
	v.scan(from, string(runnerTable+1), func(key string, value []byte) bool {
		if r := decodeRunner(runnerOfKey(key), value); r.claims > 0 {
			found = append(found, r)
		}
		return len(found) <= limit
	})
	if len(found) == 0 {
		return nil, false, nil
	}
	graceAt := decodeMeta(v.get(metaKey)).graceAt
	rows := maxRunnerRows
	for i, r := range found {
		if i == limit || rows <= 0 {
			return list, true, nil
		}
		doc := Runner{Name: r.name, Claims: r.claims, Held: r.held, LastSeenAt: r.tickledAt}
		for _, seq := range v.openClaims(r, maxOpenClaims) {
			c := readClaim(v, seq)
			if c == nil {
				continue
			}
			rows--
			open := c.document(r, graceAt)
			doc.Open = append(doc.Open, open)
			doc.LastSeenAt = max(doc.LastSeenAt, open.TickledAt)
			if c.jobLeases > 0 {
				prefix := seqKey(jobLeaseTable, seq)
				v.scan(prefix, after(prefix), func(_ string, value []byte) bool {
					o := decodeJobLease(value)
					doc.LastSeenAt = max(doc.LastSeenAt, o.lease.At)
					rows--
					return true
				})
			}
		}
		list = append(list, doc)
	}
	return list, false, nil
}

// openClaims returns the newest claims of a runner that hold something, the newest first, most of them at most. It goes no further than the
// last one that the runner has: the rows of claims that held something before are deleted, and may be very many.
func (v view) openClaims(r *runner, most int) (seqs []uint64) {
	most = min(most, r.claims)
	if most == 0 {
		return nil
	}
	prefix := runnerKey(holdTable, r.name)
	for at := v.it.SeekLTWithLimit([]byte(after(prefix)), []byte(prefix)); at == pebble.IterValid; at = v.it.PrevWithLimit([]byte(prefix)) {
		key := string(v.it.Key())
		if key < prefix {
			break
		}
		if seqs = append(seqs, claimOfHold(key)); len(seqs) == most {
			break
		}
	}
	fail("scan", v.it.Error())
	return seqs
}

// WaitingType is a type that has pending jobs in queues that are not paused, and how many.
type WaitingType struct {
	Type    string
	Waiting int64
}

// WaitingTypes returns up to limit types after the one given that have pending jobs which a claim would find, in order, of one client
// or, with "", of all, and whether more follow. Apply is not held up in between, so that they need not be of one moment.
func (s *Store) WaitingTypes(client, afterType string, limit int) (types []WaitingType, more bool) {
	for {
		s.mu.RLock()
		typ, waiting := s.queues.samples.nextType(client, afterType)
		s.mu.RUnlock()
		if typ == "" {
			return types, false
		}
		if len(types) == limit {
			return types, true
		}
		types = append(types, WaitingType{typ, waiting})
		afterType = typ
	}
}
