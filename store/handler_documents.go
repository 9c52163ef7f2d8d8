package store

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// HandlerFor returns the newest version of the handler that runs the jobs of a queue: the handler of the queue's
// client, or otherwise the handler for all clients. It looks only at memory.
func (q *Queries) HandlerFor(client, typ string) (_ Handler, ok bool) {
	newest := *q.live.newestHandlers.Load()
	if len(newest) == 0 {
		return Handler{}, false
	}
	h, ok := newest[queueName{client, typ}]
	if !ok {
		h, ok = newest[queueName{"", typ}]
	}
	return h, ok
}

// Handlers returns up to limit handlers, each in its newest version, after the pair (afterType, afterClient) in the
// order of type and client, and whether more follow.
func (q *Queries) Handlers(afterType, afterClient string, limit int) (docs []Handler, more bool, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	from := string(handlerTable)
	if afterType != "" {
		from = handlerKey(queueName{afterClient, afterType}) + "\x00"
	}
	v.Scan(from, string(handlerTable+1), func(key string, value []byte) bool {
		if more = len(docs) == limit; more {
			return false
		}
		h := decodeHandler(handlerOfKey(key), value)
		docs = append(docs, h.document(h.newest()))
		return true
	})
	return docs, more, nil
}

// HandlerVersions returns the versions of a handler that are kept, newest first, or job.HandlerNotFound if the handler
// does not exist.
func (q *Queries) HandlerVersions(client, typ string) (docs []Handler, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	h := readHandler(v, queueName{client, typ})
	if h == nil {
		return nil, job.HandlerNotFound
	}
	for i := range h.versions {
		docs = append(docs, h.document(&h.versions[i]))
	}
	slices.Reverse(docs)
	return docs, nil
}

// Handler returns the newest version of a handler and its document, or job.HandlerNotFound if the handler does not
// exist.
func (q *Queries) Handler(client, typ string) (_ Handler, text []byte, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	h := readHandler(v, queueName{client, typ})
	if h == nil {
		return Handler{}, nil, job.HandlerNotFound
	}
	return h.document(h.newest()), mustReadHandlerDocument(v, h.newest()).text, nil
}

// HandlerByID returns the version of a handler with an id, and its document, or job.HandlerNotFound if it is not kept.
func (q *Queries) HandlerByID(id job.ID) (_ Handler, text []byte, err error) {
	defer lsm.Catch(&err)
	v := q.db.View()
	defer v.Close()
	t := q.live.readHandlerDocumentOf(v, id)
	if t == nil {
		return Handler{}, nil, job.HandlerNotFound
	}
	h := readHandler(v, t.queueName)
	if h != nil {
		for i := range h.versions {
			if h.versions[i].seq == t.seq {
				return h.document(&h.versions[i]), t.text, nil
			}
		}
	}
	lsm.Contradict("find handler", "the document %d is of no version of the handler of %s, %s", t.seq, t.client, t.typ)
	return Handler{}, nil, nil
}

func mustReadHandlerDocument(r lsm.Rows, v *handlerVersion) *handlerDocument {
	t := readHandlerDocument(r, v.seq)
	if t == nil {
		lsm.Contradict("find handler", "version %d has no document", v.seq)
	}
	return t
}
