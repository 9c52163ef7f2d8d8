package machine

import (
	"crypto/sha256"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

func (m *Machine) loadHandlers() {
	m.handlers = memory.Handlers{ByName: map[row.QueueName]*row.Handler{}, Changed: true}
	m.O.Scan(string(row.HandlerTable), string(row.HandlerTable+1), func(key string, value []byte) bool {
		h := row.DecodeHandler(row.HandlerOfKey(key), value)
		m.handlers.ByName[h.QueueName] = h
		for i := range h.Versions {
			m.handlers.Bytes += int64(h.Versions[i].Bytes)
		}
		return true
	})
}

func (a *Applying) putHandler(cmd job.PutHandler) *applied.HandlerPut {
	name := row.QueueName{cmd.Client, cmd.Type}
	h := a.handlers.ByName[name]
	digest := job.HandlerDigest(sha256.Sum256(cmd.Document))
	if h != nil && h.Newest().Digest == digest {
		return &applied.HandlerPut{Handler: h.Document(h.Newest()), Same: true}
	}
	size := int64(len(cmd.Document))
	if h == nil && len(a.handlers.ByName) >= a.Rules.Handlers || a.handlers.Bytes+size > a.Rules.HandlersBytes {
		return &applied.HandlerPut{Refusal: job.TooManyHandlers}
	}
	number := 1
	if h == nil {
		h = &row.Handler{QueueName: name}
		a.handlers.ByName[name] = h
	} else {
		number = h.Newest().Number + 1
	}
	if len(h.Versions) == a.Rules.HandlerVersions {
		a.dropHandlerDocument(&h.Versions[0])
		h.Versions = append(h.Versions[:0:0], h.Versions[1:]...)
	}
	h.Versions = append(h.Versions, row.HandlerVersion{a.Now.Seq, a.Now.At, number, cmd.Kind, digest, len(cmd.Document)})
	a.handlers.Bytes += size
	document := &row.HandlerDocument{name, a.Now.Seq, a.Now.At, cmd.Document}
	a.O.Set(row.SeqKey(row.HandlerDocumentTable, a.Now.Seq), document.Encode())
	a.O.Set(row.HandlerKey(name), h.Encode())
	a.handlers.Changed = true
	return &applied.HandlerPut{Handler: h.Document(h.Newest())}
}

func (a *Applying) deleteHandler(cmd job.DeleteHandler) *applied.HandlerDeleted {
	name := row.QueueName{cmd.Client, cmd.Type}
	h := a.handlers.ByName[name]
	if h == nil {
		return &applied.HandlerDeleted{Refusal: job.HandlerNotFound}
	}
	for i := range h.Versions {
		a.dropHandlerDocument(&h.Versions[i])
	}
	a.O.Delete(row.HandlerKey(name))
	delete(a.handlers.ByName, name)
	a.handlers.Changed = true
	return &applied.HandlerDeleted{}
}

func (a *Applying) dropHandlerDocument(v *row.HandlerVersion) {
	a.O.Delete(row.SeqKey(row.HandlerDocumentTable, v.Seq))
	a.handlers.Bytes -= int64(v.Bytes)
}

// publishHandlers publishes the newest versions of the handlers for queries, if they changed since the last commit.
func (m *Machine) publishHandlers() {
	if !m.handlers.Changed {
		return
	}
	m.handlers.Changed = false
	newest := make(map[row.QueueName]document.Handler, len(m.handlers.ByName))
	for name, h := range m.handlers.ByName {
		newest[name] = h.Document(h.Newest())
	}
	m.NewestHandlers.Store(&newest)
}
