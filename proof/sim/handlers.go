package sim

import (
	"fmt"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/query"
)

// handlerTypes are the types for which operators store handlers.
var handlerTypes = []string{"resize", "mail"}

// changeHandler stores or deletes a handler. The order of these commands in the journal determines all versions,
// also for commands without an answer.
func (u *user) changeHandler() {
	client, typ := pick(u.random, "", "acme"), pick(u.random, handlerTypes...)
	if u.random.IntN(5) == 0 {
		removed(u, job.DeleteHandler{Client: client, Type: typ}, u.s.engine.DeleteHandler, job.HandlerNotFound)
		return
	}
	p := job.PutHandler{Client: client, Type: typ, Kind: "exec", Document: fmt.Appendf(nil, `{"kind":"exec","program":"p%d"}`, u.random.IntN(4))}
	answer, receipt, err := send(u, u.s.engine.PutHandler, p)
	u.unexpected(p.Verb(), err)
	u.s.log("%s %+v: %v, %+v %v", p.Verb(), p, receipt, answer, err)
	if err == nil {
		u.w.account.handlerPut(receipt, p, answer)
	}
}

// handlerPut records the answer to a command that stores a handler.
func (a *account) handlerPut(r ingest.Receipt, p job.PutHandler, answer applied.HandlerPut) {
	a.mu.Lock()
	a.figures.Handlers++
	a.mu.Unlock()
	a.answered(r, p, job.Granted, func(u *audit) error {
		newest := u.handlers.newest(p.Client, p.Type)
		if newest == nil {
			return fmt.Errorf("%s %s, %s is not in the journal", p.Verb(), p.Client, p.Type)
		}
		return checkHandler(newest, &answer.Handler, string(p.Document), u.putSame[r.Seq] == answer.Same)
	})
}

// checkHandler compares a version with an answer.
func checkHandler(v *version[string], doc *document.Handler, document string, same bool) error {
	if v.id != doc.ID || v.number != doc.Version || v.content != document || len(document) != doc.Bytes || !same {
		return fmt.Errorf("the handler is %+v with the document %s, and the journal has %+v", *doc, document, *v)
	}
	return nil
}

// handlerOperated applies a command about a handler at its place in the journal.
func (u *audit) handlerOperated(o operation) {
	switch c := o.cmd.(type) {
	case job.PutHandler:
		u.putSame[o.seq] = u.handlers.put(o, c.Client, c.Type, string(c.Document), job.MaxHandlerVersions)
	case job.DeleteHandler:
		u.handlers.remove(c.Client, c.Type)
	}
}

// checkHandlers reads all handlers and compares them with the journal.
func (u *audit) checkHandlers(q *query.Queries) error {
	for _, client := range []string{"", "acme"} {
		for _, typ := range handlerTypes {
			listed, err := q.HandlerVersions(client, typ)
			if err := readBack(u.handlers, client, typ, listed, err, job.HandlerNotFound, func(v *version[string], h document.Handler) error {
				doc, document, err := q.HandlerByID(h.ID)
				if err != nil {
					return err
				}
				if doc != h {
					return fmt.Errorf("a version of a handler is listed as %+v and reads as %+v", h, doc)
				}
				return checkHandler(v, &h, string(document), true)
			}); err != nil {
				return err
			}
		}
	}
	return nil
}
