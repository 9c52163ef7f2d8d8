package job

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Quota bounds what the server keeps for a client. 0 means without a bound.
type Quota struct {
	Unfinished int64 // jobs that have not ended
	Queues     int64
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
	if q.Unfinished == 0 && q.Queues == 0 {
		return errors.New("the quota bounds nothing; delete it instead")
	}
	if err := CheckRange("unfinished", q.Unfinished, 0, MaxQuota); err != nil {
		return err
	}
	return CheckRange("queues", q.Queues, 0, MaxQuota)
}

// Document returns the quota's document.
func (q *Quota) Document() []byte {
	f := make(fields, 0, usualFields)
	f.int("unfinished", q.Unfinished)
	f.int("queues", q.Queues)
	return f
}

// DecodeQuota is the inverse of Document.
func DecodeQuota(document []byte) (q Quota, err error) {
	r := fieldReader{rest: string(document)}
	for key, raw, ok := r.next(); ok; key, raw, ok = r.next() {
		switch key {
		case "unfinished":
			q.Unfinished = r.int(key, raw, 1, MaxQuota)
		case "queues":
			q.Queues = r.int(key, raw, 1, MaxQuota)
		default:
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
	return strconv.FormatInt(q.Unfinished, 10) + "/" + strconv.FormatInt(q.Queues, 10)
}

// ParseQuotaSummary is the inverse of Summary. A text that is no summary is a quota without bounds: Apply takes none.
func ParseQuotaSummary(text string) (q Quota) {
	unfinished, queues, _ := strings.Cut(text, "/")
	q.Unfinished, _ = strconv.ParseInt(unfinished, 10, 64)
	q.Queues, _ = strconv.ParseInt(queues, 10, 64)
	return q
}
