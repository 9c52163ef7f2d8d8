package sim

import (
	"context"
	"fmt"
	"slices"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// version is a version of a handler as the journal has it.
type version struct {
	id       job.ID
	number   int
	document string
}

// handlerTypes are the types that operators store handlers of.
var handlerTypes = []string{"resize", "mail"}

// changeHandler stores or deletes a handler. The order of these commands in the journal determines all versions, also of
// commands without an answer.
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
			u.w.account.answered(receipt, d, refusal, nil)
		}
		return
	}
	p := job.PutHandler{Client: client, Type: typ, Kind: "exec", Document: fmt.Appendf(nil, `{"kind":"exec","program":"p%d"}`, u.random.IntN(4))}
	var answer store.HandlerPut
	var receipt ingest.Receipt
	err := u.request(func(ctx context.Context) (err error) {
		answer, receipt, err = u.s.engine.PutHandler(ctx, p)
		return err
	})
	u.unexpected(p.Verb(), err)
	u.s.log("%s %+v: %v, %+v %v", p.Verb(), p, receipt, answer, err)
	if err == nil {
		u.w.account.handlerPut(receipt, p, answer)
	}
}

// handlerPut records the answer to a command that stores a handler.
func (a *account) handlerPut(r ingest.Receipt, p job.PutHandler, answer store.HandlerPut) {
	a.mu.Lock()
	a.figures.Handlers++
	a.mu.Unlock()
	a.answered(r, p, job.Granted, func(u *audit) error {
		versions := u.handlers[[2]string{p.Client, p.Type}]
		if len(versions) == 0 {
			return fmt.Errorf("%s %s, %s is not in the journal", p.Verb(), p.Client, p.Type)
		}
		return versions[len(versions)-1].check(&answer.Handler, string(p.Document), u.putSame[r.Seq] == answer.Same)
	})
}

// check compares a version with an answer.
func (v *version) check(doc *store.Handler, document string, same bool) error {
	if v.id != doc.ID || v.number != doc.Version || v.document != document || len(document) != doc.Bytes || !same {
		return fmt.Errorf("the handler is %+v with the document %s, and the journal has %+v", *doc, document, *v)
	}
	return nil
}

// handlerOperated applies a command about a handler at its place in the journal.
func (u *audit) handlerOperated(o operation) {
	switch c := o.cmd.(type) {
	case job.PutHandler:
		name := [2]string{c.Client, c.Type}
		v := version{job.NewID(o.at, o.seq, 0), 1, string(c.Document)}
		if versions := u.handlers[name]; len(versions) > 0 {
			newest := versions[len(versions)-1]
			if newest.document == v.document {
				u.putSame[o.seq] = true
				return
			}
			v.number = newest.number + 1
		}
		versions := append(u.handlers[name], v)
		u.handlers[name] = versions[max(0, len(versions)-job.MaxHandlerVersions):]
	case job.DeleteHandler:
		delete(u.handlers, [2]string{c.Client, c.Type})
	}
}

// fewestVersions is how many versions of a handler a store with small bounds keeps (package store, smallBounds).
const fewestVersions = 3

// checkHandlers reads all handlers and compares them with the journal.
func (u *audit) checkHandlers(q *store.Queries) error {
	for _, client := range []string{"", "acme"} {
		for _, typ := range handlerTypes {
			want := u.handlers[[2]string{client, typ}]
			got, err := q.HandlerVersions(client, typ)
			if len(want) == 0 && err == job.HandlerNotFound {
				continue
			}
			// A store with small bounds keeps fewer versions. Neither drops one before it has that many.
			if err != nil || len(got) > len(want) || len(got) < min(len(want), fewestVersions) {
				return fmt.Errorf("the handler of %q, %s has the versions %+v, %v; the journal has %+v", client, typ, got, err, want)
			}
			slices.Reverse(got)
			want = want[len(want)-len(got):]
			for i := range got {
				doc, document, err := q.HandlerByID(got[i].ID)
				if err == nil && doc != got[i] {
					err = fmt.Errorf("a version of a handler is listed as %+v and reads as %+v", got[i], doc)
				}
				if err == nil {
					err = want[i].check(&got[i], string(document), true)
				}
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}
