package query

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// HandlerFor returns the newest version of the handler that runs the jobs of a queue: the handler of the queue's
// client, or otherwise the handler for all clients. It looks only at memory.
func (q *Queries) HandlerFor(client, typ string) (_ document.Handler, ok bool) {
	newest := *q.live.NewestHandlers.Load()
	if len(newest) == 0 {
		return document.Handler{}, false
	}
	h, ok := newest[row.QueueName{client, typ}]
	if !ok {
		h, ok = newest[row.QueueName{"", typ}]
	}
	return h, ok
}

// Handlers returns up to limit handlers, each in its newest version, after the pair (afterType, afterClient) in the
// order of type and client, and whether more follow.
func (q *Queries) Handlers(afterType, afterClient string, limit int) (docs []document.Handler, more bool, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	from := string(row.HandlerTable)
	if afterType != "" {
		from = row.HandlerKey(row.QueueName{afterClient, afterType}) + "\x00"
	}
	v.Scan(from, string(row.HandlerTable+1), func(key string, value []byte) bool {
		if more = len(docs) == limit; more {
			return false
		}
		h := row.DecodeHandler(row.HandlerOfKey(key), value)
		docs = append(docs, h.Document(h.Newest()))
		return true
	})
	return docs, more, nil
}

// HandlerVersions returns the versions of a handler that are kept, newest first, or job.HandlerNotFound if the handler
// does not exist.
func (q *Queries) HandlerVersions(client, typ string) (docs []document.Handler, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	h := row.ReadHandler(v, row.QueueName{client, typ})
	if h == nil {
		return nil, job.HandlerNotFound
	}
	for i := range h.Versions {
		docs = append(docs, h.Document(&h.Versions[i]))
	}
	slices.Reverse(docs)
	return docs, nil
}

// Handler returns the newest version of a handler and its document, or job.HandlerNotFound if the handler does not
// exist.
func (q *Queries) Handler(client, typ string) (_ document.Handler, text []byte, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	h := row.ReadHandler(v, row.QueueName{client, typ})
	if h == nil {
		return document.Handler{}, nil, job.HandlerNotFound
	}
	return h.Document(h.Newest()), mustReadHandlerDocument(v, h.Newest()).Text, nil
}

// HandlerByID returns the version of a handler with an id, and its document, or job.HandlerNotFound if it is not kept.
func (q *Queries) HandlerByID(id job.ID) (_ document.Handler, text []byte, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	t := q.live.ReadHandlerDocumentOf(v, id)
	if t == nil {
		return document.Handler{}, nil, job.HandlerNotFound
	}
	h := row.ReadHandler(v, t.QueueName)
	if h != nil {
		for i := range h.Versions {
			if h.Versions[i].Seq == t.Seq {
				return h.Document(&h.Versions[i]), t.Text, nil
			}
		}
	}
	lsm.Contradict("find handler", "the document %d is of no version of the handler of %s, %s", t.Seq, t.Client, t.Typ)
	return document.Handler{}, nil, nil
}

func mustReadHandlerDocument(r lsm.Rows, v *row.HandlerVersion) *row.HandlerDocument {
	t := row.ReadHandlerDocument(r, v.Seq)
	if t == nil {
		lsm.Contradict("find handler", "version %d has no document", v.Seq)
	}
	return t
}
