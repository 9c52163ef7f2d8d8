package sim

import (
	"context"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// filesetNames are the filesets that operators store.
var filesetNames = []string{"input", "output"}

// changeFileset stores or deletes a fileset. As with handlers, the order in the journal determines all versions.
func (u *user) changeFileset() {
	client, name := pick(u.random, "", "acme"), pick(u.random, filesetNames...)
	if u.random.IntN(5) == 0 {
		d := job.DeleteFileset{Client: client, Name: name}
		var receipt ingest.Receipt
		err := u.request(func(ctx context.Context) (err error) {
			receipt, err = u.s.engine.DeleteFileset(ctx, d)
			return err
		})
		refusal := job.Granted
		if err == job.FilesetNotFound {
			refusal, err = job.FilesetNotFound, nil
		}
		u.unexpected(d.Verb(), err)
		u.s.log("%s %+v: %v, %v %v", d.Verb(), d, receipt, refusal, err)
		if err == nil && receipt.Seq != 0 {
			u.w.account.answered(receipt, d, &applied.FilesetDeleted{Refusal: refusal})
		}
		return
	}
	p := job.PutFileset{Client: client, Name: name, Manifest: job.ManifestDigest{byte(u.random.IntN(4))}, Files: 1, Bytes: 2}
	answer, receipt, err := send(u, u.s.engine.PutFileset, p)
	u.unexpected(p.Verb(), err)
	u.s.log("%s %+v: %v, %+v %v", p.Verb(), p, receipt, answer, err)
	if err == nil {
		u.w.account.answered(receipt, p, &answer)
	}
}
