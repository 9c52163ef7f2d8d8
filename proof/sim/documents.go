package sim

import (
	"context"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/proof/model"
	"github.com/daybookq/daybook/store/applied"
)

// documentNames are the named documents of each kind that operators change, for no client and for one.
var documentNames = []string{"resize", "mail"}

// changeDocument stores or deletes a named document, half of the time under a condition. The order of these commands in
// the journal determines all versions, also for commands without an answer.
func (u *user) changeDocument(kind job.DocumentKind) {
	client, name, by := pick(u.random, "", "acme"), pick(u.random, documentNames...), pick(u.random, "", "anna", "bob")
	if kind == job.KeyDocument || kind == job.LoginDocument || kind == job.QuotaDocument { // these have no client
		client = ""
	}
	var cond job.Condition
	if u.random.IntN(2) == 0 {
		cond = pick(u.random, job.IfNone, job.IfExists, job.IfVersion(1+u.random.IntN(8)), job.IfVersion(1+u.random.IntN(8)))
	}
	var cmd job.Command = job.DeleteDocument{Kind: kind, Client: client, Name: name, If: cond, By: by}
	if u.random.IntN(5) > 0 {
		p := model.SomeDocument(kind, client, name, u.random.IntN(4))
		p.If, p.By = cond, by
		cmd = p
	}
	var answer applied.DocumentChanged
	var receipt ingest.Receipt
	err := u.request(func(ctx context.Context) (err error) {
		switch c := cmd.(type) {
		case job.PutDocument:
			answer, receipt, err = u.s.engine.PutDocument(ctx, c)
		case job.DeleteDocument:
			answer, receipt, err = u.s.engine.DeleteDocument(ctx, c)
		}
		return err
	})
	if err == job.VersionDiffers || err == kind.Rules().NotFound {
		err = nil // the answer says so, too
	}
	u.unexpected(cmd.Verb(), err)
	u.s.log("%s %+v: %v, %+v %v", cmd.Verb(), cmd, receipt, answer, err)
	if err == nil && receipt.Seq != 0 {
		u.w.account.answered(u.key, receipt, cmd, &answer)
	}
}
