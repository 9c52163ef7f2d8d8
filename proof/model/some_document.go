package model

import (
	"fmt"

	"github.com/daybookq/daybook/job"
)

// SomeDocument returns a change that stores a valid document of a kind, the n-th of its name, for tests. A kind without clients has
// the client in the name.
func SomeDocument(kind job.DocumentKind, client, name string, n int) job.PutDocument {
	p := job.PutDocument{Kind: kind, Client: client, Name: name}
	switch kind {
	case job.HandlerDocument:
		p.Summary, p.Document = "exec", fmt.Appendf(nil, `{"kind":"exec","program":"p%d"}`, n)
	case job.FilesetDocument:
		p.Summary, p.Digest = job.FilesetSummary(1, 2), job.DocumentDigest{byte(1 + n)}
	case job.KeyDocument:
		key := job.Key{Roles: job.RolesOf(job.RoleProducer), Generation: 1 + n, Sum: job.KeySum{1}}
		p.Client, p.Summary, p.Document = "", "producer", key.Document()
		if client != "" {
			p.Name = client + "." + name
		}
	case job.LoginDocument:
		login := job.Login{By: "boss", Until: 1 + int64(n), KeySum: job.KeySum{1}}
		p.Client, p.Summary, p.Document = "", login.By, login.Document()
		if client != "" {
			p.Name = client + "." + name
		}
	}
	return p
}
