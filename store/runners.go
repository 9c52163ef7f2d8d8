package store

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// ClaimDocument returns the document of a claim and the documents of the jobs it holds, with as much of their histories
// as a claim shows. It returns job.ClaimNotFound if no job names the claim, or none does any longer.
func (q *Queries) ClaimDocument(id job.ID, parts Parts) (doc Claim, jobs []job.Job, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Discard()
	c := q.live.readClaimOf(v, id)
	if c == nil || c.refs == 0 {
		return Claim{}, nil, job.ClaimNotFound
	}
	doc = c.document(readRunner(v, c.runner), decodeMeta(v.Get(metaKey)).graceAt)
	if c.held == 0 {
		return doc, nil, nil
	}
	if parts&Details != 0 {
		parts = parts&^Details | Brief
	}
	return doc, q.heldDocuments(v, c.seq, c.runs, parts), nil
}

const (
	// maxOpenClaims bounds the claims that a runner's document shows.
	maxOpenClaims = 100
	// maxRunnerRows bounds the claims, runs of claims and leases of single jobs that a page of runners looks at, except
	// the claims of its last runner. Beyond it, leases of single jobs do not affect when a runner was last seen.
	maxRunnerRows = 10_000
)

// Runners returns up to limit runners that hold jobs, in the order of the lengths of their names and then of the names,
// after the given name, and whether more follow. A page with very many claims ends before its limit.
func (q *Queries) Runners(afterName string, limit int) (list []Runner, more bool, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	from := string(runnerTable)
	if afterName != "" {
		from = runnerKey(runnerTable, afterName) + "\x00"
	}
	var found []*runner
	v.Scan(from, string(runnerTable+1), func(key string, value []byte) bool {
		if r := decodeRunner(runnerOfKey(key), value); r.claims > 0 {
			found = append(found, r)
		}
		return len(found) <= limit
	})
	if len(found) == 0 {
		return nil, false, nil
	}
	graceAt := decodeMeta(v.Get(metaKey)).graceAt
	rows := maxRunnerRows
	for i, r := range found {
		if i == limit || rows <= 0 {
			return list, true, nil
		}
		list = append(list, runnerDocument(v, r, graceAt, &rows))
	}
	return list, false, nil
}

// Runner returns the document of one runner. If the runner holds no jobs, the document has only its name.
func (q *Queries) Runner(name string) (doc Runner, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	r := readRunner(v, name)
	if r.claims == 0 {
		return Runner{Name: name}, nil
	}
	rows := maxRunnerRows
	return runnerDocument(v, r, decodeMeta(v.Get(metaKey)).graceAt, &rows), nil
}

// runnerDocument returns the document of a runner that holds jobs. It subtracts the number of rows that it looks at
// from rows.
func runnerDocument(v lsm.View, r *runner, graceAt int64, rows *int) Runner {
	doc := Runner{Name: r.name, Claims: r.claims, Held: r.held, LastSeenAt: r.tickledAt}
	for _, seq := range openClaims(v, r, maxOpenClaims) {
		c := readClaim(v, seq)
		if c == nil {
			continue
		}
		*rows -= 1 + len(c.runs)
		open := c.document(r, graceAt)
		doc.Open = append(doc.Open, open)
		doc.LastSeenAt = max(doc.LastSeenAt, open.TickledAt)
		if c.jobLeases > 0 {
			prefix := seqKey(jobLeaseTable, seq)
			v.Scan(prefix, lsm.After(prefix), func(_ string, value []byte) bool {
				o := decodeJobLease(value)
				doc.LastSeenAt = max(doc.LastSeenAt, o.lease.At)
				*rows--
				return *rows > 0
			})
		}
	}
	return doc
}

// openClaims returns at most most of the newest claims of a runner that still hold jobs, newest first: the claims that
// its row lists, and the claims that have rows. It ends at the runner's last row, because the rows of claims that held
// jobs before are deleted, and there may be very many.
func openClaims(v lsm.View, r *runner, most int) (seqs []uint64) {
	if rows := min(most, r.claims-len(r.open)); rows > 0 {
		prefix := runnerKey(holdTable, r.name)
		v.ScanDown(prefix, lsm.After(prefix), func(key string, _ []byte) bool {
			seqs = append(seqs, claimOfHold(key))
			return len(seqs) < rows
		})
	}
	seqs = append(seqs, r.open...)
	slices.Sort(seqs)
	slices.Reverse(seqs)
	return seqs[:min(most, len(seqs))]
}
