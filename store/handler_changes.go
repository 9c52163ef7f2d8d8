package store

import (
	"crypto/sha256"

	"github.com/daybookq/daybook/job"
)

func (m *machine) loadHandlers() {
	m.handlers = handlers{byName: map[queueName]*handler{}, changed: true}
	m.o.Scan(string(handlerTable), string(handlerTable+1), func(key string, value []byte) bool {
		h := decodeHandler(handlerOfKey(key), value)
		m.handlers.byName[h.queueName] = h
		for i := range h.versions {
			m.handlers.bytes += int64(h.versions[i].bytes)
		}
		return true
	})
}

func (a *applying) putHandler(cmd job.PutHandler) *HandlerPut {
	name := queueName{cmd.Client, cmd.Type}
	h := a.handlers.byName[name]
	digest := job.HandlerDigest(sha256.Sum256(cmd.Document))
	if h != nil && h.newest().digest == digest {
		return &HandlerPut{Handler: h.document(h.newest()), Same: true}
	}
	size := int64(len(cmd.Document))
	if h == nil && len(a.handlers.byName) >= a.rules.handlers || a.handlers.bytes+size > a.rules.handlersBytes {
		return &HandlerPut{Refusal: job.TooManyHandlers}
	}
	number := 1
	if h == nil {
		h = &handler{queueName: name}
		a.handlers.byName[name] = h
	} else {
		number = h.newest().number + 1
	}
	if len(h.versions) == a.rules.handlerVersions {
		a.dropHandlerDocument(&h.versions[0])
		h.versions = append(h.versions[:0:0], h.versions[1:]...)
	}
	h.versions = append(h.versions, handlerVersion{a.now.Seq, a.now.At, number, cmd.Kind, digest, len(cmd.Document)})
	a.handlers.bytes += size
	document := &handlerDocument{name, a.now.Seq, a.now.At, cmd.Document}
	a.o.Set(seqKey(handlerDocumentTable, a.now.Seq), document.encode())
	a.o.Set(handlerKey(name), h.encode())
	a.handlers.changed = true
	return &HandlerPut{Handler: h.document(h.newest())}
}

func (a *applying) deleteHandler(cmd job.DeleteHandler) *HandlerDeleted {
	name := queueName{cmd.Client, cmd.Type}
	h := a.handlers.byName[name]
	if h == nil {
		return &HandlerDeleted{Refusal: job.HandlerNotFound}
	}
	for i := range h.versions {
		a.dropHandlerDocument(&h.versions[i])
	}
	a.o.Delete(handlerKey(name))
	delete(a.handlers.byName, name)
	a.handlers.changed = true
	return &HandlerDeleted{}
}

func (a *applying) dropHandlerDocument(v *handlerVersion) {
	a.o.Delete(seqKey(handlerDocumentTable, v.seq))
	a.handlers.bytes -= int64(v.bytes)
}

// publishHandlers publishes the newest versions of the handlers for queries, if they changed since the last commit.
func (m *machine) publishHandlers() {
	if !m.handlers.changed {
		return
	}
	m.handlers.changed = false
	newest := make(map[queueName]Handler, len(m.handlers.byName))
	for name, h := range m.handlers.byName {
		newest[name] = h.document(h.newest())
	}
	m.newestHandlers.Store(&newest)
}
