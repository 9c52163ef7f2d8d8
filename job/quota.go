package job

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Quota bounds what the server keeps for a client. 0 means without a bound. As the use of a client, it has how much there is.
type Quota struct {
	Unfinished      int64 // jobs that have not ended
	Queues          int64
	Bytes           int64 // of the payloads of all jobs that are kept
	Sessions        int64 // open ones
	IdempotencyKeys int64 // of the last day and a half at most
	Sweeps          int64 // in progress
}

// QuotaNumber is a number of a quota.
type QuotaNumber struct {
	Name, What string // in documents, and in texts such as "3 unfinished jobs"
	N          *int64
}

// Numbers returns the numbers of the quota, which the caller may change.
func (q *Quota) Numbers() [6]QuotaNumber {
	return [...]QuotaNumber{
		{"unfinished", "unfinished jobs", &q.Unfinished}, {"queues", "queues", &q.Queues}, {"bytes", "bytes of payloads", &q.Bytes},
		{"sessions", "sessions", &q.Sessions}, {"idempotency_keys", "idempotency keys", &q.IdempotencyKeys}, {"sweeps", "sweeps in progress", &q.Sweeps},
	}
}

// quotaRules are the rules of quotas. The name of a quota is the client, so it belongs to no client: whoever uses the client does
// not change it. The document has the form of a command's fields, and the summary has the numbers. Creates look at them, so they
// are in memory.
var quotaRules = DocumentRules{
	Name: "quota", MaxBytes: MaxQuotaBytes, MaxNames: MaxQuotas, MaxTotal: MaxQuotasBytes, InMemory: true, NotFound: QuotaNotFound, TooMany: TooManyQuotas,
	Check: func(p *PutDocument) error {
		if p.Client != "" {
			return errors.New("a quota is named by its client, and belongs to none")
		}
		q, err := DecodeQuota(p.Document)
		if err == nil && p.Summary != q.Summary() {
			err = fmt.Errorf("the summary %q is not that of the quota", p.Summary)
		}
		return err
	},
}

// Check returns an error unless each number is in its bounds, and at least one is given.
func (q *Quota) Check() error {
	if *q == (Quota{}) {
		return errors.New("the quota bounds nothing; delete it instead")
	}
	for _, of := range q.Numbers() {
		if err := CheckRange(of.Name, *of.N, 0, MaxQuota); err != nil {
			return err
		}
	}
	return nil
}

// Document returns the quota's document.
func (q *Quota) Document() []byte {
	f := make(fields, 0, usualFields)
	for _, of := range q.Numbers() {
		f.int(of.Name, *of.N)
	}
	return f
}

// DecodeQuota is the inverse of Document.
func DecodeQuota(document []byte) (q Quota, err error) {
	r := fieldReader{rest: string(document)}
	numbers := q.Numbers()
	for key, raw, ok := r.next(); ok; key, raw, ok = r.next() {
		if i := slices.IndexFunc(numbers[:], func(of QuotaNumber) bool { return of.Name == key }); i >= 0 {
			*numbers[i].N = r.int(key, raw, 1, MaxQuota)
		} else {
			r.unknown(key)
		}
	}
	switch {
	case r.err != nil:
		return q, fmt.Errorf("quota: %w", r.err)
	case q.Check() != nil:
		return q, fmt.Errorf("quota: %w", q.Check())
	case !bytes.Equal(q.Document(), document):
		return q, errors.New("quota: its document is not in the only form that it has")
	}
	return q, nil
}

// Summary returns the numbers of the quota.
func (q *Quota) Summary() string {
	var text []byte
	for _, of := range q.Numbers() {
		text = append(strconv.AppendInt(text, *of.N, 10), '/')
	}
	return string(text[:len(text)-1])
}

// ParseQuotaSummary is the inverse of Summary. A text that is no summary is a quota without bounds: Apply takes none.
func ParseQuotaSummary(text string) (q Quota) {
	for _, of := range q.Numbers() {
		var number string
		number, text, _ = strings.Cut(text, "/")
		*of.N, _ = strconv.ParseInt(number, 10, 64)
	}
	return q
}
