package query

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// ClaimDocument returns the document of a claim and the documents of the jobs it holds, with as much of their histories
// as a claim shows. It returns job.ClaimNotFound if no job names the claim, or none does any longer.
func (q *Queries) ClaimDocument(id job.ID, parts Parts) (doc document.Claim, jobs []job.Job, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Discard()
	c := q.live.ReadClaimOf(v, id)
	if c == nil || c.Refs == 0 {
		return document.Claim{}, nil, job.ClaimNotFound
	}
	doc = c.Document(row.ReadRunner(v, c.Runner), row.DecodeMeta(v.Get(row.MetaKey)).GraceAt)
	if c.Held == 0 {
		return doc, nil, nil
	}
	if parts&Details != 0 {
		parts = parts&^Details | Brief
	}
	return doc, q.heldDocuments(v, c.Seq, c.Runs, parts), nil
}

const (
	// MaxOpenClaims bounds the claims that a runner's document shows.
	MaxOpenClaims = 100
	// maxRunnerRows bounds the claims, runs of claims and leases of single jobs that a page of runners looks at, except
	// the claims of its last runner. Beyond it, leases of single jobs do not affect when a runner was last seen.
	maxRunnerRows = 10_000
)

// Runners returns up to limit runners that hold jobs, in the order of the lengths of their names and then of the names,
// after the given name, and whether more follow. A page with very many claims ends before its limit.
func (q *Queries) Runners(afterName string, limit int) (list []document.Runner, more bool, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	from := string(row.RunnerTable)
	if afterName != "" {
		from = row.RunnerKey(row.RunnerTable, afterName) + "\x00"
	}
	var found []*row.Runner
	v.Scan(from, string(row.RunnerTable+1), func(key string, value []byte) bool {
		if r := row.DecodeRunner(row.RunnerOfKey(key), value); r.Claims > 0 {
			found = append(found, r)
		}
		return len(found) <= limit
	})
	if len(found) == 0 {
		return nil, false, nil
	}
	graceAt := row.DecodeMeta(v.Get(row.MetaKey)).GraceAt
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
func (q *Queries) Runner(name string) (doc document.Runner, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	r := row.ReadRunner(v, name)
	if r.Claims == 0 {
		return document.Runner{Name: name}, nil
	}
	rows := maxRunnerRows
	return runnerDocument(v, r, row.DecodeMeta(v.Get(row.MetaKey)).GraceAt, &rows), nil
}

// runnerDocument returns the document of a runner that holds jobs. It subtracts the number of rows that it looks at
// from rows.
func runnerDocument(v lsm.View, r *row.Runner, graceAt int64, rows *int) document.Runner {
	doc := document.Runner{Name: r.Name, Claims: r.Claims, Held: r.Held, LastSeenAt: r.TickledAt}
	for _, seq := range OpenClaims(v, r, MaxOpenClaims) {
		c := row.ReadClaim(v, seq)
		if c == nil {
			continue
		}
		*rows -= 1 + len(c.Runs)
		open := c.Document(r, graceAt)
		doc.Open = append(doc.Open, open)
		doc.LastSeenAt = max(doc.LastSeenAt, open.TickledAt)
		if c.JobLeases > 0 {
			prefix := row.SeqKey(row.JobLeaseTable, seq)
			v.Scan(prefix, lsm.After(prefix), func(_ string, value []byte) bool {
				o := row.DecodeJobLease(value)
				doc.LastSeenAt = max(doc.LastSeenAt, o.Lease.At)
				*rows--
				return *rows > 0
			})
		}
	}
	return doc
}

// OpenClaims returns at most most of the newest claims of a runner that still hold jobs, newest first: the claims that
// its row lists, and the claims that have rows. It ends at the runner's last row, because the rows of claims that held
// jobs before are deleted, and there may be very many.
func OpenClaims(v lsm.View, r *row.Runner, most int) (seqs []uint64) {
	if rows := min(most, r.Claims-len(r.Open)); rows > 0 {
		prefix := row.RunnerKey(row.HoldTable, r.Name)
		v.ScanDown(prefix, lsm.After(prefix), func(key string, _ []byte) bool {
			seqs = append(seqs, row.ClaimOfHold(key))
			return len(seqs) < rows
		})
	}
	seqs = append(seqs, r.Open...)
	slices.Sort(seqs)
	slices.Reverse(seqs)
	return seqs[:min(most, len(seqs))]
}
