package sim

import (
	"context"
	"fmt"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// handlerTypes are the types for which operators store handlers.
var handlerTypes = []string{"resize", "mail"}

// changeHandler stores or deletes a handler. The order of these commands in the journal determines all versions,
// also for commands without an answer.
func (u *user) changeHandler() {
	client, typ := pick(u.random, "", "acme"), pick(u.random, handlerTypes...)
	if u.random.IntN(5) == 0 {
		d := job.DeleteHandler{Client: client, Type: typ}
		var receipt ingest.Receipt
		err := u.request(func(ctx context.Context) (err error) {
			receipt, err = u.s.engine.DeleteHandler(ctx, d)
			return err
		})
		refusal := job.Granted
		if err == job.HandlerNotFound {
			refusal, err = job.HandlerNotFound, nil
		}
		u.unexpected(d.Verb(), err)
		u.s.log("%s %+v: %v, %v %v", d.Verb(), d, receipt, refusal, err)
		if err == nil && receipt.Seq != 0 {
			u.w.account.answered(receipt, d, &applied.HandlerDeleted{Refusal: refusal})
		}
		return
	}
	p := job.PutHandler{Client: client, Type: typ, Kind: "exec", Document: fmt.Appendf(nil, `{"kind":"exec","program":"p%d"}`, u.random.IntN(4))}
	answer, receipt, err := send(u, u.s.engine.PutHandler, p)
	u.unexpected(p.Verb(), err)
	u.s.log("%s %+v: %v, %+v %v", p.Verb(), p, receipt, answer, err)
	if err == nil {
		u.w.account.answered(receipt, p, &answer)
	}
}
