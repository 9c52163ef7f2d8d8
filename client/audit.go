package client

import (
	"bytes"
	"context"
	"iter"
	"strconv"
	"time"

	"net/url"

	"github.com/daybookq/daybook/client/internal/transport"
)

// Audited is a command of an operator or an admin.
type Audited struct {
	Seq     uint64            `json:"seq"`     // its place in the journal
	At      int64             `json:"at"`      // unix ms
	By      string            `json:"by"`      // the key of the request; "": there were no keys
	Command string            `json:"command"` // its name in the journal, such as pause
	Fields  map[string]string `json:"fields"`  // what it names, such as a client and a type
	Refusal string            `json:"refusal"` // the code of the problem, if it was refused
}

// AuditQuery says which commands Audit yields. The zero value of a field matches all.
type AuditQuery struct {
	By, Command   string
	Since, Before time.Time // Before is exclusive
	After         uint64    // a seq
}

// maxAuditPage is how many lines a page of the audit has at most.
const maxAuditPage = 1000

// Audit yields the commands of operators and admins that the server keeps, in their order. An error ends the iteration.
func (c *Client) Audit(ctx context.Context, q AuditQuery) iter.Seq2[Audited, error] {
	r := transport.Get("/audit")
	r.Query = url.Values{}
	set := func(name, value string) {
		if value != "" {
			r.Query.Set(name, value)
		}
	}
	set("by", q.By)
	set("command", q.Command)
	if !q.Since.IsZero() {
		set("created_after", strconv.FormatInt(q.Since.UnixMilli(), 10))
	}
	if !q.Before.IsZero() {
		set("created_before", strconv.FormatInt(q.Before.UnixMilli(), 10))
	}
	if q.After > 0 {
		set("after", strconv.FormatUint(q.After, 10))
	}
	return transport.Pages(ctx, &c.conn, r, func(a transport.Answer) (list []Audited, next string, err error) {
		for line := range bytes.Lines(a.Body) {
			var one Audited
			if err := transport.Decode(transport.Answer{Body: line, Once: a.Once}, &one); err != nil {
				return nil, "", err
			}
			list = append(list, one)
		}
		if len(list) == maxAuditPage {
			next = strconv.FormatUint(list[len(list)-1].Seq, 10)
		}
		return list, next, nil
	})
}
